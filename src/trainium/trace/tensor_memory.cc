#include "trainium/trace/tensor_memory.h"

#include <algorithm>

#include "trainium/trace/live_memory.h"

namespace neuronmm::trace {

namespace {

using tile::Memory;

constexpr int32_t kNoState = MemoryMap::kNoOccupant;
constexpr size_t kMostOverlaps = 5;     // The warnings that are kept.
constexpr size_t kMostCells = 1 << 24;  // Cells of all live tensors, which take 512 MiB.
static_assert(sizeof(CellTimes) == 32);

// Returns the quarters of 32 partitions that [first, end) touches.
uint8_t quarters_of(int64_t first, int64_t end) {
  unsigned quarters = 0;
  for (int64_t q = first / 32; q < static_cast<int64_t>(kQuarters) && q * 32 < end; ++q) {
    quarters |= 1u << q;
  }
  return static_cast<uint8_t>(quarters);
}

// Makes a cell wait for the accesses to an earlier cell, if they are later than those it knows.
void wait_for_cell(CellTimes& cell, const CellTimes& before) {
  if (before.ready > cell.ready) {
    cell.ready = before.ready;
    cell.writer = before.writer;
    cell.unit = before.unit;
  }
  if (before.last_read > cell.last_read) {
    cell.last_read = before.last_read;
    cell.reader = before.reader;
  }
}

// Returns the cells that `interval` touches, rounded outwards.
std::pair<size_t, size_t> cells_touching(const std::vector<int64_t>& cuts,
                                         const Interval& interval) {
  const auto first = std::upper_bound(cuts.begin(), cuts.end(), interval.begin) - cuts.begin();
  const auto last = std::lower_bound(cuts.begin(), cuts.end(), interval.end) - cuts.begin();
  const auto cells = static_cast<std::ptrdiff_t>(cuts.size()) - 1;
  return {static_cast<size_t>(std::max<std::ptrdiff_t>(first - 1, 0)),
          static_cast<size_t>(std::min(last, cells))};
}

// Calls visit(offsets, place) for each part of a tensor that lies inside `memory`. The tensor lies
// in `ranges`, one after the other. `offsets` are bytes of the tensor, which begin at `place`.
template <typename Visit>
void for_each_offset(const std::vector<MemoryRange>& ranges, const MemoryRange& memory,
                     const Visit& visit) {
  int64_t offset = 0;
  for (const MemoryRange& range : ranges) {
    const int64_t begin = std::max(range.begin, memory.begin);
    const int64_t end = std::min(range.end, memory.end);
    if (begin < end) {
      visit(Interval{offset + begin - range.begin, offset + end - range.begin}, begin);
    }
    offset += range.end - range.begin;
  }
}

}  // namespace

TensorMemory::TensorMemory(const TraceFile& file, const Contents& contents,
                           const simulator::DeviceSpec& device, const BufferLimits& buffer_limits,
                           bool places_sbuf)
    : file_(file),
      header_(file.header()),
      contents_(contents),
      device_(device),
      buffer_limits_(buffer_limits),
      places_sbuf_(places_sbuf),
      state_of_(contents.instances.size(), kNoState),
      sbuf_(static_cast<int64_t>(device.sbuf_usable_bytes), static_cast<int64_t>(device.sbuf_bytes),
            1, [this](int32_t state) { free_states_.push_back(state); }),
      psum_(static_cast<int64_t>(device.psum_banks * device.psum_bank_bytes),
            static_cast<int64_t>(device.psum_banks * device.psum_bank_bytes),
            static_cast<int64_t>(device.psum_bank_bytes),
            [this](int32_t state) { free_states_.push_back(state); }) {
  collect_reserved();
  if (buffer_limits_.copies == 0 && buffer_limits_.copies_of.empty()) return;
  std::map<std::string, uint32_t> count_by_name;
  for (const Instance& instance : contents_.instances) {
    ordinal_.push_back(count_by_name[header_.tensors[instance.kind].name]++);
  }
}

// Collects the lives of tensors with addresses. They matter only if tensors with and without
// addresses share a memory.
void TensorMemory::collect_reserved() {
  std::map<std::pair<int64_t, int64_t>, std::vector<std::pair<uint32_t, uint32_t>>> lives[2];
  bool open[2] = {false, false};
  for (uint32_t i = 0; i < contents_.instances.size(); ++i) {
    const Instance& instance = contents_.instances[i];
    const TensorKind& kind = header_.tensors[instance.kind];
    if (instance.root != i || instance.first == Instance::kNever || !kind.on_chip()) continue;
    const size_t memory = kind.memory == Memory::kPsum ? 1 : 0;
    if (instance.address < 0) {
      open[memory] = true;
      continue;
    }
    lives[memory][{instance.address, instance.address + kind.row_bytes()}].emplace_back(
        instance.first, instance.last);
  }
  for (size_t memory = 0; memory < 2; ++memory) {
    if (!open[memory]) continue;
    for (auto& [range, spans] : lives[memory]) {
      std::sort(spans.begin(), spans.end());
      Reserved reserved{.range = {range.first, range.second}, .first = {}, .last = {}};
      for (const auto& [first, last] : spans) {
        const uint32_t latest = reserved.last.empty() ? last : std::max(last, reserved.last.back());
        reserved.first.push_back(first);
        reserved.last.push_back(latest);
      }
      reserved_[memory].push_back(std::move(reserved));
    }
  }
}

std::optional<MemoryRange> TensorMemory::blocked(Memory memory, const MemoryRange& range,
                                                 uint32_t now, uint32_t last) const {
  for (const Reserved& r : reserved_[memory == Memory::kPsum ? 1 : 0]) {
    if (r.range.begin >= range.end || r.range.end <= range.begin) continue;
    const auto lives = std::upper_bound(r.first.begin(), r.first.end(), last) - r.first.begin();
    if (lives > 0 && r.last[static_cast<size_t>(lives) - 1] >= now) return r.range;
  }
  return std::nullopt;
}

int32_t TensorMemory::new_state(const Instance& instance) {
  int32_t id = static_cast<int32_t>(states_.size());
  if (free_states_.empty()) {
    states_.emplace_back();
  } else {
    id = free_states_.back();
    free_states_.pop_back();
  }
  TensorState& state = states_[static_cast<size_t>(id)];
  state.kind = instance.kind;
  state.live = true;
  state.mapped = false;
  state.first_partition = instance.first_partition;
  state.ranges.clear();
  const auto cells = static_cast<size_t>(contents_.accesses.grid(instance.kind).cells());
  cells_ += cells - std::min(cells, state.cells.capacity());
  state.cells.assign(cells, CellTimes{});
  return id;
}

Result<TensorState*> TensorMemory::begin_access(uint32_t root) {
  int32_t& id = state_of_[root];
  if (id == kNoState) {
    const Instance& instance = contents_.instances[root];
    if (!contents_.accesses.tracked(instance.kind)) return static_cast<TensorState*>(nullptr);
    id = new_state(instance);
    if (cells_ > kMostCells) {
      return fail("{}: {}: {}: the tensors in use have more than {} parts that are accessed apart",
                  file_.name(), header_.location(instance.source),
                  header_.tensors[instance.kind].name, kMostCells);
    }
    if (header_.tensors[instance.kind].on_chip()) NMM_TRY(place(root, id));
  }
  return &states_[static_cast<size_t>(id)];
}

void TensorMemory::end_access(uint32_t root, uint32_t now) {
  const Instance& instance = contents_.instances[root];
  const int32_t id = state_of_[root];
  if (instance.last != now || id == kNoState) return;
  const TensorKind& kind = header_.tensors[instance.kind];
  TensorState& state = states_[static_cast<size_t>(id)];
  state.live = false;
  state_of_[root] = kNoState;
  if (!kind.on_chip()) {
    free_states_.push_back(id);
  } else if (state.mapped) {
    map(kind.memory).vacate(state.ranges, id, now + 1);  // 0 means never.
  } else if (kind.memory == Memory::kSbuf && !places_sbuf_) {
    free_states_.push_back(id);
  }
}

void TensorMemory::begin_anew(uint32_t root, uint32_t now) {
  int32_t& id = state_of_[root];
  const Instance& instance = contents_.instances[root];
  if (id == kNoState || instance.address >= 0) return;
  TensorState& state = states_[static_cast<size_t>(id)];
  const TensorKind& kind = header_.tensors[instance.kind];
  if (!state.mapped || kind.memory != Memory::kSbuf) return;
  state.live = false;
  map(kind.memory).vacate(state.ranges, id, now + 1);
  id = kNoState;
}

void TensorMemory::take_turns(uint32_t root, uint32_t source) {
  const TensorKind& kind = header_.tensors[contents_.instances[root].kind];
  if (!kind.on_chip() || !buffer_limits_.copies_of.contains(kind.name)) return;
  const auto [line, is_first] = filled_by_.try_emplace(root, source);
  int32_t& id = state_of_[root];
  if (is_first || line->second != source || id == kNoState) return;
  states_[static_cast<size_t>(id)].live = false;
  id = kNoState;
}

Error TensorMemory::no_memory_error(const Instance& instance) const {
  const TensorKind& kind = header_.tensors[instance.kind];
  return fail("{}: {}: no room for {} of {} bytes per partition beside the tensors with addresses",
              file_.name(), header_.location(instance.source), kind.name, kind.row_bytes());
}

Result<std::vector<MemoryRange>> TensorMemory::ranges_for(const Instance& instance) const {
  const TensorKind& kind = header_.tensors[instance.kind];
  const bool psum = kind.memory == Memory::kPsum;
  if (instance.address < 0) {
    const int64_t bytes = memory_taken(kind, static_cast<int64_t>(device_.psum_bank_bytes));
    const bool reserved = !reserved_[psum ? 1 : 0].empty();
    auto found = (psum ? psum_ : sbuf_)
                     .find(bytes, reserved ? [&](const MemoryRange& range) {
                       return blocked(kind.memory, range, instance.first, instance.last);
                     } : MemoryMap::Blocked());
    if (found.empty()) return no_memory_error(instance);
    return found;
  }
  const auto size = static_cast<int64_t>(psum ? device_.psum_banks * device_.psum_bank_bytes
                                              : device_.sbuf_bytes);
  const int64_t end = instance.address + kind.row_bytes();
  if (end > size) {
    return fail("{}: {}: {}: bytes {} to {} of a partition, which has {} on {}", file_.name(),
                header_.location(instance.source), kind.name, instance.address, end, size,
                device_.name);
  }
  const uint8_t quarters =
      quarters_of(instance.first_partition, instance.first_partition + kind.shape[0]);
  return std::vector<MemoryRange>{{instance.address, end, quarters}};
}

Status TensorMemory::place(uint32_t root, int32_t id) {
  const Instance& instance = contents_.instances[root];
  const TensorKind& kind = header_.tensors[instance.kind];
  if (kind.memory == Memory::kSbuf && !places_sbuf_) return {};
  const int64_t copies = buffer_limits_.copies_for(kind.name);
  if (copies > 0 && (instance.address < 0 || buffer_limits_.splits)) {
    place_in_ring(root, id, copies);
    return {};
  }
  TensorState& state = states_[static_cast<size_t>(id)];
  NMM_ASSIGN(state.ranges, ranges_for(instance));
  state.mapped = true;
  for (const MemoryMap::Piece& piece : map(kind.memory).occupy(state.ranges, id)) {
    if (piece.taken) warn_of_overlap(instance);
    inherit(state, piece);
  }
  return {};
}

// Places a tensor in a slot of a ring. The slots are not in a map; live_peak() checks that the
// tensors fit.
void TensorMemory::place_in_ring(uint32_t root, int32_t id, int64_t copies) {
  const TensorKind& kind = header_.tensors[contents_.instances[root].kind];
  Ring& ring = rings_[kind.name];
  ring.slots.resize(static_cast<size_t>(copies), kNoState);
  const size_t turn = buffer_limits_.splits ? ring.taken++ : ordinal_[root];
  int32_t& slot = ring.slots[turn % static_cast<size_t>(copies)];
  TensorState& state = states_[static_cast<size_t>(id)];
  state.ranges = {{0, kind.row_bytes()}};
  if (slot != kNoState) {
    const TensorState& before = states_[static_cast<size_t>(slot)];
    inherit(state, before, {.range = state.ranges[0]}, kAllQuarters);
    if (!before.live) free_states_.push_back(slot);
  }
  slot = id;
}

void TensorMemory::warn_of_overlap(const Instance& instance) {
  if (overlaps_.size() >= kMostOverlaps) return;
  std::string text =
      fmt::format("{} ({}) lies on memory that is still in use",
                  header_.tensors[instance.kind].name, header_.location(instance.source));
  if (overlaps_.empty() || overlaps_.back() != text) overlaps_.push_back(std::move(text));
}

void TensorMemory::inherit(TensorState& state, const MemoryMap::Piece& piece) {
  for (size_t q = 0; q < kQuarters; ++q) {
    const int32_t before = piece.before[q];
    const auto first = std::find(piece.before.begin(), piece.before.end(), before);
    if (before == kNoState || first != piece.before.begin() + static_cast<std::ptrdiff_t>(q)) {
      continue;  // Nobody was there, or an earlier quarter has handled the tensor.
    }
    unsigned quarters = 0;
    for (size_t i = q; i < kQuarters; ++i) {
      if (piece.before[i] == before) quarters |= 1u << i;
    }
    inherit(state, states_[static_cast<size_t>(before)], piece, static_cast<uint8_t>(quarters));
  }
}

// Makes the cells wait for the tensor that was there before. Each cell waits for the cells that lay
// on its bytes. A cell's bytes may lie in several pieces.
void TensorMemory::inherit(TensorState& state, const TensorState& before,
                           const MemoryMap::Piece& piece, uint8_t quarters) {
  const bool whole = state.ranges.size() == 1 && before.ranges.size() == 1;
  if (whole && state.kind == before.kind && state.first_partition == before.first_partition &&
      state.ranges[0].begin == before.ranges[0].begin && piece.range.end == state.ranges[0].end &&
      piece.range.begin == state.ranges[0].begin) {
    for (size_t i = 0; i < state.cells.size(); ++i) wait_for_cell(state.cells[i], before.cells[i]);
    return;
  }
  const TensorGrid& grid = contents_.accesses.grid(state.kind);
  const auto columns = static_cast<size_t>(grid.num_columns());
  for_each_offset(state.ranges, piece.range, [&](const Interval& offsets, int64_t place) {
    const auto [first, last] = cells_touching(grid.columns, offsets);
    for (size_t c = first; c < last; ++c) {
      const Interval part = {std::max(grid.columns[c], offsets.begin),
                             std::min(grid.columns[c + 1], offsets.end)};
      const int64_t begin = place + part.begin - offsets.begin;
      const Interval bytes = {begin, begin + part.end - part.begin};
      for (size_t i = c; i < state.cells.size(); i += columns) {
        const size_t r = i / columns;
        const Interval partitions = {state.first_partition + grid.rows[r],
                                     state.first_partition + grid.rows[r + 1]};
        if ((quarters_of(partitions.begin, partitions.end) & quarters) == 0) continue;
        inherit_cell(state.cells[i], partitions, bytes, before);
      }
    }
  });
}

void TensorMemory::inherit_cell(CellTimes& cell, const Interval& partitions, const Interval& bytes,
                                const TensorState& before) const {
  const TensorGrid& grid = contents_.accesses.grid(before.kind);
  const int64_t first = before.first_partition;
  const auto rows = cells_touching(grid.rows, {partitions.begin - first, partitions.end - first});
  for_each_offset(before.ranges, {bytes.begin, bytes.end}, [&](const Interval& offsets, int64_t) {
    const auto columns = cells_touching(grid.columns, offsets);
    for (size_t r = rows.first; r < rows.second; ++r) {
      for (size_t c = columns.first; c < columns.second; ++c) {
        wait_for_cell(cell, before.cells[r * static_cast<size_t>(grid.num_columns()) + c]);
      }
    }
  });
}

}  // namespace neuronmm::trace
