#pragma once
// SBUF for a kernel that wants more than there is. The compiler of the legacy dialect spills what
// does not fit and loads it again when it is used. Here a tensor is spilled tile by tile, the
// columns between the cuts of its grid, of which narrow neighbours are one tile; what is used again
// last goes first, so that what is visited in turn stays as far as it fits. What came from HBM
// unchanged is loaded again and not saved.

#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainium/simulator/dma.h"
#include "trainium/trace/contents.h"
#include "trainium/trace/tensor_memory.h"

namespace neuronmm::trace {

class SpillingMemory {
 public:
  // move(transfer, tensor, save, ready) makes a transfer that the trace does not contain, and
  // returns when its data is in place.
  using Move = std::function<double(const simulator::Transfer&, const std::string&, bool, double)>;

  // `capacity`: bytes per partition.
  SpillingMemory(const TraceFile& file, const Contents& contents, int64_t capacity);
  // Fails for a trace with more tiles, or uses of tiles, than can be looked after.
  Status prepare();
  void set_move(Move move) { move_ = std::move(move); }

  struct Visit {
    uint32_t root = 0;
    TensorState* state = nullptr;
    std::span<const uint32_t> cells;
    bool reads = false;
    bool loads = false;  // writes what is in HBM as well
  };
  // Makes room for what an instruction touches. Fails where that alone is too much.
  Status visit(const std::vector<Visit>& visits, uint32_t now);
  // The instruction has run: what is not used again gives its room.
  void finish();

 private:
  struct Tile {
    uint32_t root = 0, number = 0;  // of the tensor's tiles
    uint32_t next = 0, end = 0;     // its uses to come, in uses_
    TensorState* state = nullptr;
    bool resident = false, dirty = false, in_hbm = false;
    uint32_t user = UINT32_MAX;  // the last instruction that uses it
  };
  struct Room {  // memory that is free, and from when on
    int64_t bytes = 0;
    Cell last;  // the accesses that it waits for
  };

  // A kind's columns in tiles: the first column of each, and its end.
  void group_columns(uint32_t kind);
  Status collect_uses();
  std::span<const uint32_t> cells_of(const OperandRecord& operand, bool anywhere) const;
  template <typename Body>
  void for_each_tile(const Visit& visit, const Body& body) const;
  int64_t bytes_of(const Tile& tile) const;
  bool several_columns(const Tile& tile) const;
  Cell last_access(const Tile& tile) const;
  simulator::Transfer transfer_of(const Tile& tile) const;
  Status bring_in(Tile& tile, bool reads, uint32_t now);
  void used(uint32_t id, const Visit& visit, uint32_t now);
  bool evict(uint32_t now);
  void save(Tile& tile, Cell& last);
  Cell take(int64_t bytes);
  void release(const Tile& tile, const Cell& last);
  template <typename Body>
  void for_each_cell(const Tile& tile, const Body& body) const;

  const TraceFile& file_;
  const Header& header_;
  const Contents& contents_;
  int64_t free_;
  Move move_;
  std::vector<uint32_t> first_tile_;  // by instance
  std::vector<std::vector<uint32_t>>
      tile_begins_;                             // by kind: its tiles' first columns, and the end
  std::vector<std::vector<uint32_t>> tile_of_;  // by kind and column
  std::vector<Tile> tiles_;
  std::vector<uint32_t> uses_;                                     // instructions, by tile
  std::priority_queue<std::pair<uint32_t, uint32_t>> candidates_;  // next use, tile
  std::deque<Room> rooms_;
  std::vector<uint32_t> dying_;  // tiles
};

}  // namespace neuronmm::trace
