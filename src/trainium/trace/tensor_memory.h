#pragma once
// When the parts of a kernel's tensors may be read and written, and where in memory they lie: a
// tensor that takes the place of another waits for the last accesses to it.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainium/simulator/costs.h"
#include "trainium/simulator/device_spec.h"
#include "trainium/trace/contents.h"
#include "trainium/trace/memory_map.h"

namespace neuronmm::trace {

struct Cell {
  double ready = 0;      // when its content is visible to other engines
  double last_read = 0;  // when its last reader is done
  uint32_t writer = UINT32_MAX, reader = UINT32_MAX;  // the instructions of these two times
  simulator::Unit unit = simulator::Unit::kDma;       // of the writer
};

struct TensorState {
  uint32_t kind = 0;
  bool live = true;     // there are accesses to come
  bool mapped = false;  // it lies in the map, and not in a slot of a ring (Rotation)
  int32_t first_partition = 0;
  std::vector<MemoryRange> ranges;
  std::vector<Cell> cells;  // of its kind's grid
};

// At most how many tensors of one name hold memory at a time, in turn: the n-th takes the place of
// the one `copies` before it, whatever memory is free. By default (0) what is free decides.
struct Rotation {
  int64_t copies = 0;
  std::map<std::string, int64_t> copies_of;  // by tensor name, instead

  int64_t of(const std::string& name) const {
    const auto at = copies_of.find(name);
    return at == copies_of.end() ? copies : at->second;
  }
};

class TensorMemory {
 public:
  // `places_sbuf`: false where somebody else looks after SBUF (SpillingMemory).
  TensorMemory(const TraceFile& file, const Contents& contents, const simulator::DeviceSpec& device,
               const Rotation& rotation, bool places_sbuf);

  // The cells of a tensor that is accessed; its first access gives it its place. Null where nothing
  // waits (operands in HBM that are only read or only written).
  Result<TensorState*> touch(uint32_t root);
  // The instruction `now` is done with it.
  void done(uint32_t root, uint32_t now);

  // Tensors with addresses that lie on others that are still in use, as far as they were seen.
  const std::vector<std::string>& overlaps() const { return overlaps_; }

 private:
  // Lives of the tensors that have one range of addresses, by their first access.
  struct Reserved {
    MemoryRange range;
    std::vector<uint32_t> first, last;  // last: the latest up to and with this one
  };
  void collect_reserved();
  int32_t new_state(const Instance& instance);
  Result<std::vector<MemoryRange>> ranges_for(const Instance& instance) const;
  Status place(uint32_t root, int32_t state);
  void place_in_ring(uint32_t root, int32_t state, int64_t copies);
  void inherit(TensorState& state, const MemoryMap::Piece& piece);
  void inherit(TensorState& state, const TensorState& before, const MemoryMap::Piece& piece,
               uint8_t quarters);
  void inherit_cell(Cell& cell, const Interval& partitions, const Interval& bytes,
                    const TensorState& before) const;
  std::optional<MemoryRange> blocked(tile::Memory memory, const MemoryRange& range, uint32_t now,
                                     uint32_t last) const;
  void note_overlap(const Instance& instance);
  Error no_room(const Instance& instance) const;
  MemoryMap& map(tile::Memory memory) { return memory == tile::Memory::kPsum ? psum_ : sbuf_; }

  const TraceFile& file_;
  const Header& header_;
  const Contents& contents_;
  const simulator::DeviceSpec& device_;
  const Rotation& rotation_;
  bool places_sbuf_;
  std::vector<int32_t> state_of_;  // by instance, kNobody: none yet
  std::vector<uint32_t> ordinal_;  // by instance: how many of its name were made before it
  std::deque<TensorState> states_;
  std::vector<int32_t> free_states_;
  size_t cells_ = 0;  // of all states
  MemoryMap sbuf_, psum_;
  std::vector<Reserved> reserved_[2];                  // SBUF, PSUM
  std::map<std::string, std::vector<int32_t>> rings_;  // by tensor name: a state per slot
  std::vector<std::string> overlaps_;
};

}  // namespace neuronmm::trace
