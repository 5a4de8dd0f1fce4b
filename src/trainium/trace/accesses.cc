#include "trainium/trace/accesses.h"

#include <algorithm>

namespace neuronmm::trace {

namespace {

// Limits of the numbers of cells and accesses. Beyond them, cuts are dropped, and accesses count as
// accesses to the whole tensor. Larger cells have all real hazards and some more. They can only
// lengthen the simulated time, while work and memory stay bounded. Assumed: real kernels stay below
// the limits.
constexpr int64_t kMostCellsOnChip = 1 << 12, kMostCellsInHbm = 1 << 16;
constexpr int64_t kMostAccesses = 1 << 16;  // To tensors of one kind.
// The most cells listed for all accesses to tensors of one kind, and for all accesses to all
// tensors.
constexpr int64_t kMostListed = 1 << 22, kMostListedInAll = 1 << 26;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}
uint64_t hash_of(const Access& a) {
  uint64_t hash = mix(a.kind, (uint64_t{a.root_kind} << 32) | a.pattern);
  hash = mix(hash, static_cast<uint64_t>(a.offset));
  return mix(hash, static_cast<uint64_t>(a.base));
}

void sort_unique(std::vector<int64_t>& cuts) {
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
}

// Removes every second cut, except the two ends.
void thin_cuts(std::vector<int64_t>& cuts) {
  size_t kept = 1;
  for (size_t i = 2; i + 1 < cuts.size(); i += 2) cuts[kept++] = cuts[i];
  cuts[kept++] = cuts.back();
  cuts.resize(kept);
}

// Returns the cells that an interval touches, rounded outwards, as [first, last).
std::pair<uint32_t, uint32_t> cells_between(const std::vector<int64_t>& cuts,
                                            const Interval& interval) {
  const auto first = std::upper_bound(cuts.begin(), cuts.end(), interval.begin) - cuts.begin() - 1;
  const auto last = std::lower_bound(cuts.begin(), cuts.end(), interval.end) - cuts.begin();
  return {static_cast<uint32_t>(first), static_cast<uint32_t>(last)};
}

}  // namespace

AccessTable::AccessTable(const Header& header)
    : header_(&header), kinds_(header.tensors.size()), slots_(1024) {
  for (size_t k = 0; k < kinds_.size(); ++k) kinds_[k].on_chip = header.tensors[k].on_chip();
}

const AccessTable::Slot* AccessTable::lookup(const Access& access, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.entry == kEmpty) return nullptr;
    if (slot.hash == hash && accesses_[slot.entry].same(access)) return &slot;
  }
}

void AccessTable::insert(const Access& access, uint64_t hash) {
  if ((accesses_.size() + 1) * 2 > slots_.size()) grow();
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].entry != kEmpty) at = (at + 1) & mask;
  slots_[at] = {hash, static_cast<uint32_t>(accesses_.size())};
  accesses_.push_back(access);
  accesses_.back().form = form_of(access.kind, access.pattern);
}

void AccessTable::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.entry == kEmpty) continue;
    size_t at = slot.hash & mask;
    while (slots_[at].entry != kEmpty) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

void AccessTable::add(Access access) {
  Kind& kind = kinds_[access.root_kind];
  uint64_t hash = hash_of(access);
  if (lookup(access, hash)) return;
  if (++kind.accesses > kMostAccesses) {
    access.offset = Access::kRunTimeOffset;
    hash = hash_of(access);
    if (lookup(access, hash)) return;
  }
  insert(access, hash);
}

const Access& AccessTable::find(Access access) const {
  if (const Slot* slot = lookup(access, hash_of(access))) return accesses_[slot->entry];
  access.offset = Access::kRunTimeOffset;
  return accesses_[lookup(access, hash_of(access))->entry];
}

uint32_t AccessTable::form_of(uint32_t kind_id, uint32_t pattern_id) {
  const uint64_t key = (uint64_t{kind_id} << 32) | pattern_id;
  const auto [at, inserted] = form_ids_.try_emplace(key, static_cast<uint32_t>(forms_.size()));
  if (!inserted) return at->second;
  const TensorKind& kind = header_->tensors[kind_id];
  const Pattern& pattern = header_->patterns[pattern_id];
  Form form{.memory = kind.memory, .dtype = kind.dtype};
  const size_t first = kind.on_chip() ? 1 : 0;
  if (kind.on_chip()) form.partitions = pattern.axes[0].count;
  bool contiguous = true;
  for (size_t i = pattern.axes.size(); i-- > first;) {
    const auto& [stride, count] = pattern.axes[i];
    if (count == 1) continue;
    if (form.elements == 1) form.inner_stride_bytes = std::abs(stride) * kind.dtype.bytes;
    form.elements *= count;
    contiguous = contiguous && std::abs(stride) == form.contiguous;
    if (contiguous) form.contiguous *= count;
  }
  forms_.push_back(form);
  return at->second;
}

Footprint AccessTable::footprint_of(const Access& access) const {
  const TensorKind& root = header_->tensors[access.root_kind];
  if (access.offset != Access::kRunTimeOffset) {
    return footprint(header_->tensors[access.kind], root, access.base,
                     header_->patterns[access.pattern], access.offset);
  }
  const TensorGrid& grid = kinds_[access.root_kind].grid;
  return {{0, grid.rows.back()}, {{0, grid.columns.back()}}};
}

void AccessTable::finish() {
  std::vector<std::vector<uint32_t>> by_kind(kinds_.size());
  for (uint32_t i = 0; i < accesses_.size(); ++i) {
    by_kind[accesses_[i].root_kind].push_back(i);
  }
  int64_t listed = 0;
  for (uint32_t k = 0; k < kinds_.size(); ++k) {
    const TensorKind& kind = header_->tensors[k];
    TensorGrid& grid = kinds_[k].grid;
    grid = {{0, kind.rows()}, {0, kind.row_bytes()}};
    if (!tracked(k)) continue;
    cut(grid, by_kind[k]);
    const int64_t most = kind.on_chip() ? kMostCellsOnChip : kMostCellsInHbm;
    int64_t count = 0;
    while (grid.num_rows() > 1 || grid.num_columns() > 1) {
      const bool few = int64_t{grid.num_rows()} * grid.num_columns() <= most;
      count = few ? count_cells(grid, by_kind[k]) : 0;
      if (few && count <= kMostListed && listed + count <= kMostListedInAll) break;
      thin_cuts(grid.num_columns() >= grid.num_rows() ? grid.columns : grid.rows);
    }
    listed += count;
  }
  for (Access& access : accesses_) assign_cells(access);
}

// Cuts the grid where the accesses begin and end.
void AccessTable::cut(TensorGrid& grid, const std::vector<uint32_t>& accesses) const {
  // Many accesses share their cuts, so removing duplicates keeps the lists short. A list is sorted
  // again only after it has doubled, because all of its cuts may be distinct.
  size_t most_rows = 4096, most_columns = 65536;
  const auto shorten = [](std::vector<int64_t>& cuts, size_t& most) {
    if (cuts.size() <= most) return;
    sort_unique(cuts);
    most = std::max(most, 2 * cuts.size());
  };
  for (const uint32_t id : accesses) {
    if (accesses_[id].offset == Access::kRunTimeOffset) continue;
    const Footprint touched = footprint_of(accesses_[id]);
    grid.rows.insert(grid.rows.end(), {touched.rows.begin, touched.rows.end});
    for (const Interval& run : touched.columns) {
      grid.columns.insert(grid.columns.end(), {run.begin, run.end});
    }
    shorten(grid.rows, most_rows);
    shorten(grid.columns, most_columns);
  }
  sort_unique(grid.rows);
  sort_unique(grid.columns);
}

// Returns how many cells the accesses touch, at most.
int64_t AccessTable::count_cells(const TensorGrid& grid,
                                 const std::vector<uint32_t>& accesses) const {
  int64_t count = 0;
  for (const uint32_t id : accesses) {
    const Footprint touched = accesses_[id].offset == Access::kRunTimeOffset
                                  ? Footprint{{0, grid.rows.back()}, {{0, grid.columns.back()}}}
                                  : footprint_of(accesses_[id]);
    const auto [row, rows_end] = cells_between(grid.rows, touched.rows);
    for (const Interval& run : touched.columns) {
      const auto [first, last] = cells_between(grid.columns, run);
      count += int64_t{rows_end - row} * (last - first);
    }
  }
  return count;
}

void AccessTable::assign_cells(Access& access) {
  access.first_cell = static_cast<uint32_t>(cells_.size());
  if (!tracked(access.root_kind)) return;
  const Footprint touched = footprint_of(access);
  access.first_partition = static_cast<int32_t>(touched.rows.begin);
  const TensorGrid& grid = kinds_[access.root_kind].grid;
  const auto columns_per_row = static_cast<uint32_t>(grid.num_columns());
  const auto [row, rows_end] = cells_between(grid.rows, touched.rows);
  for (uint32_t r = row; r < rows_end; ++r) {
    uint32_t next = 0;  // A coarse cell may hold the end of one run and the begin of the next.
    for (const Interval& run : touched.columns) {
      const auto [first, last] = cells_between(grid.columns, run);
      for (uint32_t c = std::max(first, next); c < last; ++c) {
        cells_.push_back(r * columns_per_row + c);
      }
      next = std::max(next, last);
    }
  }
  access.num_cells = static_cast<uint32_t>(cells_.size()) - access.first_cell;
}

}  // namespace neuronmm::trace
