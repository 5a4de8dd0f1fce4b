#include "trainium/trace/spilling.h"

#include <algorithm>
#include <utility>

#include "trainium/trace/records.h"

namespace neuronmm::trace {

namespace {

// The smallest tile. Assumed: a smaller transfer costs as much.
constexpr int64_t kLeastTileBytes = 512;    // Bytes per partition.
constexpr size_t kMostTiles = 1 << 23;      // Takes 400 MB.
constexpr uint64_t kMostUses = 1ull << 26;  // Takes 256 MB.

bool in_sbuf(const TensorKind& kind) { return kind.memory == tile::Memory::kSbuf; }

}  // namespace

SpillingMemory::SpillingMemory(const TraceFile& file, const Contents& contents, int64_t capacity)
    : file_(file), header_(file.header()), contents_(contents), free_(capacity) {
  free_memory_.push_back({capacity, CellTimes{}});
}

void SpillingMemory::group_columns(uint32_t kind) {
  std::vector<uint32_t>& begins = tile_begins_[kind];
  if (!begins.empty()) return;
  const TensorGrid& grid = contents_.accesses.grid(kind);
  for (uint32_t c = 0; c < static_cast<uint32_t>(grid.num_columns()); ++c) {
    if (begins.empty() || grid.columns[c] - grid.columns[begins.back()] >= kLeastTileBytes) {
      begins.push_back(c);
    }
    tile_of_[kind].push_back(static_cast<uint32_t>(begins.size()) - 1);
  }
  begins.push_back(static_cast<uint32_t>(grid.num_columns()));
}

Status SpillingMemory::prepare() {
  tile_begins_.resize(header_.tensors.size());
  tile_of_.resize(header_.tensors.size());
  for (uint32_t i = 0; i < contents_.instances.size(); ++i) {
    first_tile_.push_back(static_cast<uint32_t>(tiles_.size()));
    const Instance& instance = contents_.instances[i];
    if (instance.root != i || !in_sbuf(header_.tensors[instance.kind])) continue;
    group_columns(instance.kind);
    for (uint32_t n = 0; n + 1 < tile_begins_[instance.kind].size(); ++n) {
      tiles_.push_back({.root = i, .number = n});
    }
    if (tiles_.size() > kMostTiles) {
      return fail("{}: SBUF overflows, and more than {} tiles would have to be spilled one by one",
                  file_.name(), kMostTiles);
    }
  }
  return collect_uses();
}

// Visits the tiles that an access touches, which are those of its first row of cells.
template <typename Body>
void SpillingMemory::for_each_tile(const Visit& visit, const Body& body) const {
  if (visit.cells.empty()) return;
  const uint32_t kind = contents_.instances[visit.root].kind;
  const auto columns = static_cast<uint32_t>(contents_.accesses.grid(kind).num_columns());
  const uint32_t row = visit.cells[0] / columns;
  uint32_t last = UINT32_MAX;
  for (const uint32_t cell : visit.cells) {
    if (cell / columns != row) break;
    const uint32_t tile = tile_of_[kind][cell % columns];
    if (tile != std::exchange(last, tile)) body(tile);
  }
}

// Passes over the trace twice: first to count the uses of each tile, then to store them.
Status SpillingMemory::collect_uses() {
  uint64_t total = 0;
  for (const bool counting : {true, false}) {
    uint32_t now = 0;
    for (Cursor cursor(file_.records()); cursor.next();) {
      if (!cursor.is(RecordKind::kInstruction)) continue;
      for (size_t i = 0; i < cursor.num_operands(); ++i) {
        const OperandRecord operand = cursor.operand(i);
        const uint32_t root = contents_.instances[operand.instance].root;
        if (!in_sbuf(header_.tensors[contents_.instances[root].kind])) continue;
        const Visit visit{
            .root = root,
            .cells = cells_of(operand, header_.operations[cursor.subject()].has_run_time_index[i])};
        for_each_tile(visit, [&](uint32_t number) {
          Tile& tile = tiles_[first_tile_[root] + number];
          if (!counting) uses_[tile.end] = now;
          ++tile.end;
          ++total;
        });
      }
      ++now;
    }
    if (!counting) break;
    if (total > kMostUses) {
      return fail("{}: SBUF overflows, and its tiles are used more than {} times", file_.name(),
                  kMostUses);
    }
    uint32_t begin = 0;
    for (Tile& tile : tiles_) {
      const uint32_t count = tile.end;
      tile.next = tile.end = begin;
      begin += count;
    }
    uses_.resize(begin);
  }
  return {};
}

std::span<const uint32_t> SpillingMemory::cells_of(const OperandRecord& operand,
                                                   bool has_run_time_index) const {
  return contents_.accesses.cells(contents_.access(operand, has_run_time_index));
}

int64_t SpillingMemory::bytes_of(const Tile& tile) const {
  const uint32_t kind = contents_.instances[tile.root].kind;
  const TensorGrid& grid = contents_.accesses.grid(kind);
  const std::vector<uint32_t>& begins = tile_begins_[kind];
  return grid.columns[begins[tile.number + 1]] - grid.columns[begins[tile.number]];
}

bool SpillingMemory::several_columns(const Tile& tile) const {
  const std::vector<uint32_t>& begins = tile_begins_[contents_.instances[tile.root].kind];
  return begins[tile.number + 1] - begins[tile.number] > 1;
}

template <typename Body>
void SpillingMemory::for_each_cell(const Tile& tile, const Body& body) const {
  const uint32_t kind = contents_.instances[tile.root].kind;
  const TensorGrid& grid = contents_.accesses.grid(kind);
  const std::vector<uint32_t>& begins = tile_begins_[kind];
  for (int32_t row = 0; row < grid.num_rows(); ++row) {
    const size_t first = static_cast<size_t>(row) * static_cast<size_t>(grid.num_columns());
    for (uint32_t c = begins[tile.number]; c < begins[tile.number + 1]; ++c) {
      body(tile.state->cells[first + c]);
    }
  }
}

CellTimes SpillingMemory::last_access(const Tile& tile) const {
  CellTimes last;
  for_each_cell(tile, [&](const CellTimes& cell) {
    if (cell.ready > last.ready) last.ready = cell.ready, last.writer = cell.writer;
    if (cell.last_read > last.last_read) {
      last.last_read = cell.last_read, last.reader = cell.reader;
    }
  });
  return last;
}

simulator::Transfer SpillingMemory::transfer_of(const Tile& tile) const {
  const int64_t bytes = bytes_of(tile);
  return {.partitions = header_.tensors[contents_.instances[tile.root].kind].shape[0],
          .bytes_per_partition = bytes,
          .chunk_bytes = bytes};
}

Status SpillingMemory::visit(const std::vector<Visit>& visits, uint32_t now) {
  for (const Visit& visit : visits) {
    for_each_tile(visit, [&](uint32_t number) {
      Tile& tile = tiles_[first_tile_[visit.root] + number];
      tile.user = now;
      tile.state = visit.state;
    });
  }
  // The operands are visited from the last to the first. A sum that is both source and destination
  // is thus brought in as a source.
  for (size_t i = visits.size(); i-- > 0;) {
    const Visit& visit = visits[i];
    Status status;
    for_each_tile(visit, [&](uint32_t number) {
      const uint32_t id = first_tile_[visit.root] + number;
      Tile& tile = tiles_[id];
      if (status.ok()) status = bring_in(tile, visit.reads, now);
      record_use(id, visit, now);
    });
    NMM_TRY(std::move(status));
  }
  return {};
}

void SpillingMemory::record_use(uint32_t id, const Visit& visit, uint32_t now) {
  Tile& tile = tiles_[id];
  if (!visit.reads) {
    // A load of some columns leaves the others as they were.
    tile.dirty = !visit.loads || (tile.dirty && several_columns(tile));
    tile.in_hbm = !tile.dirty;
  }
  while (tile.next < tile.end && uses_[tile.next] <= now) ++tile.next;
  if (tile.next < tile.end) {
    candidates_.emplace(uses_[tile.next], id);
  } else {
    past_last_use_.push_back(id);
  }
}

Status SpillingMemory::bring_in(Tile& tile, bool reads, uint32_t now) {
  if (tile.resident) return {};
  const int64_t bytes = bytes_of(tile);
  while (free_ < bytes) {
    if (evict(now)) continue;
    const Instance& instance = contents_.instances[tile.root];
    return fail("{}: {}: no room in SBUF for {} beside what instruction {} uses with it",
                file_.name(), header_.location(instance.source),
                header_.tensors[instance.kind].name, now);
  }
  CellTimes last = take_memory(bytes);
  tile.resident = true;
  const double free = std::max(last.ready, last.last_read);
  // A tile that is written in part must have its other content, too.
  const bool reload = (reads || several_columns(tile)) && tile.in_hbm;
  const double ready =
      reload ? move_(transfer_of(tile), header_.tensors[contents_.instances[tile.root].kind].name,
                     false, free)
             : 0;
  for_each_cell(tile, [&](CellTimes& cell) {
    cell.last_read = std::max(cell.last_read, free);
    cell.reader = last.last_read >= last.ready ? last.reader : last.writer;
    if (!reload) return;
    cell.ready = ready;
    cell.writer = cell.reader;
    cell.unit = simulator::Unit::kDma;
  });
  return {};
}

// Evicts the tile whose next use is latest, among those that the present instruction does not use.
bool SpillingMemory::evict(uint32_t now) {
  std::vector<std::pair<uint32_t, uint32_t>> in_use;
  bool done = false;
  while (!done && !candidates_.empty()) {
    const auto [next_use, id] = candidates_.top();
    candidates_.pop();
    Tile& tile = tiles_[id];
    if (!tile.resident || tile.next >= tile.end || uses_[tile.next] != next_use) continue;
    if (tile.user == now) {
      in_use.emplace_back(next_use, id);
      continue;
    }
    CellTimes last = last_access(tile);
    if (tile.dirty) save(tile, last);
    release(tile, last);
    tile.resident = false;
    done = true;
  }
  for (const auto& candidate : in_use) candidates_.push(candidate);
  return done;
}

void SpillingMemory::save(Tile& tile, CellTimes& last) {
  const std::string& name = header_.tensors[contents_.instances[tile.root].kind].name;
  const double ready = std::max(last.ready, last.last_read);
  if (last.ready > last.last_read) last.reader = last.writer;
  last.last_read = move_(transfer_of(tile), name, true, ready);
  tile.dirty = false;
  tile.in_hbm = true;
}

void SpillingMemory::release(const Tile& tile, const CellTimes& last) {
  const int64_t bytes = bytes_of(tile);
  free_ += bytes;
  free_memory_.push_back({bytes, last});
}

// Takes the memory that has been free longest.
CellTimes SpillingMemory::take_memory(int64_t bytes) {
  free_ -= bytes;
  CellTimes last;
  while (bytes > 0) {
    FreeMemory& oldest = free_memory_.front();
    const int64_t taken = std::min(bytes, oldest.bytes);
    if (oldest.last.ready > last.ready) {
      last.ready = oldest.last.ready, last.writer = oldest.last.writer;
    }
    if (oldest.last.last_read > last.last_read) {
      last.last_read = oldest.last.last_read, last.reader = oldest.last.reader;
    }
    bytes -= taken;
    oldest.bytes -= taken;
    if (oldest.bytes == 0) free_memory_.pop_front();
  }
  return last;
}

void SpillingMemory::finish() {
  for (const uint32_t id : past_last_use_) {
    Tile& tile = tiles_[id];
    if (!tile.resident) continue;
    release(tile, last_access(tile));
    tile.resident = false;
  }
  past_last_use_.clear();
}

}  // namespace neuronmm::trace
