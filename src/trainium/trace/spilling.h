#pragma once
// Manages SBUF for a legacy kernel that needs more than there is. The compiler of the legacy
// dialect spills what does not fit and loads it again when it is used. In this model, tensors are
// spilled tile by tile. A tile has the columns between the cuts of the tensor's grid, where narrow
// neighbours are joined.
//
// The tile whose next use is latest is evicted first. If a loop visits more tiles than fit, some of
// them therefore stay in SBUF. A tile that came from HBM and has not changed is loaded again
// without being saved. simulate() (simulate.h) makes the object, and TraceSource (source.h) calls
// it before and after each instruction.

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
  // move(transfer, tensor, save, ready) makes a transfer that the trace does not contain. It
  // returns when the data is in place.
  using Move = std::function<double(const simulator::Transfer&, const std::string&, bool, double)>;

  // `capacity` is in bytes per partition.
  SpillingMemory(const TraceFile& file, const Contents& contents, int64_t capacity);
  // Collects the uses of the tiles. Fails if a trace has more tiles, or uses of tiles, than can be
  // tracked.
  Status prepare();
  void set_move(Move move) { move_ = std::move(move); }

  struct Visit {
    uint32_t root = 0;
    TensorState* state = nullptr;
    std::span<const uint32_t> cells;
    bool reads = false;
    bool loads = false;  // The instruction writes a copy of data that is in HBM.
  };
  // Brings the tiles that an instruction touches into SBUF. Fails if these tiles alone do not fit.
  Status visit(const std::vector<Visit>& visits, uint32_t now);
  // Frees the tiles that are not used again, after the instruction has run.
  void finish();

 private:
  struct Tile {
    uint32_t root = 0, number = 0;  // The number counts the tensor's tiles.
    uint32_t next = 0, end = 0;     // Its remaining uses, as a range of uses_.
    TensorState* state = nullptr;
    bool resident = false, dirty = false, in_hbm = false;
    uint32_t user = UINT32_MAX;  // The last instruction that uses it.
  };
  struct FreeMemory {  // Free memory, and the time from when on it is free.
    int64_t bytes = 0;
    CellTimes last;  // The accesses that it waits for.
  };

  // Groups a kind's columns into tiles: the first column of each, and the end.
  void group_columns(uint32_t kind);
  Status collect_uses();
  std::span<const uint32_t> cells_of(const OperandRecord& operand, bool has_run_time_index) const;
  template <typename Body>
  void for_each_tile(const Visit& visit, const Body& body) const;
  int64_t bytes_of(const Tile& tile) const;
  bool several_columns(const Tile& tile) const;
  CellTimes last_access(const Tile& tile) const;
  simulator::Transfer transfer_of(const Tile& tile) const;
  Status bring_in(Tile& tile, bool reads, uint32_t now);
  void record_use(uint32_t id, const Visit& visit, uint32_t now);
  bool evict(uint32_t now);
  void save(Tile& tile, CellTimes& last);
  CellTimes take_memory(int64_t bytes);
  void release(const Tile& tile, const CellTimes& last);
  template <typename Body>
  void for_each_cell(const Tile& tile, const Body& body) const;

  const TraceFile& file_;
  const Header& header_;
  const Contents& contents_;
  int64_t free_;
  Move move_;
  std::vector<uint32_t> first_tile_;  // By instance.
  std::vector<std::vector<uint32_t>>
      tile_begins_;  // By kind: the first column of each tile, and the end.
  std::vector<std::vector<uint32_t>> tile_of_;  // By kind and column.
  std::vector<Tile> tiles_;
  std::vector<uint32_t> uses_;  // Instructions, by tile.
  // Pairs of the next use and the tile.
  std::priority_queue<std::pair<uint32_t, uint32_t>> candidates_;
  std::deque<FreeMemory> free_memory_;
  std::vector<uint32_t> past_last_use_;  // Tiles.
};

}  // namespace neuronmm::trace
