#pragma once
// Tracks when the parts of a kernel's tensors may be read and written, and where the tensors lie in
// memory. A tensor that takes the place of another one waits for the last accesses to that tensor.
//
// `neuronmm nki` simulates traces with this class. TraceSource (source.h) owns the object. It calls
// begin_access() for every operand of an instruction and end_access() after the instruction, in
// program order. A simulation fails if begin_access() fails, for example because a tensor finds no
// free memory.

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

// The last accesses to a cell, with their times in ns. A cell is a part of a tensor that is
// accessed as a whole (accesses.h).
struct CellTimes {
  double ready = 0;      // When the content is visible to other engines.
  double last_read = 0;  // When the last reader has finished.
  uint32_t writer = UINT32_MAX, reader = UINT32_MAX;  // The instructions of these two times.
  simulator::Unit unit = simulator::Unit::kDma;       // The writer's unit.
};

// The cells of a tensor while it is in use, and its place.
struct TensorState {
  uint32_t kind = 0;
  bool live = true;     // True while accesses are still to come.
  bool mapped = false;  // The tensor lies in the map and not in a slot of a ring (BufferLimits).
  int32_t first_partition = 0;
  std::vector<MemoryRange> ranges;
  std::vector<CellTimes> cells;  // By cell of its kind's grid.
};

// Limits how many tensors of one name hold memory at the same time. The n-th tensor takes the place
// of the one `copies` before it, whatever memory is free. With 0, the default, a tensor takes free
// memory. `neuronmm nki --what-if buffers=3` sets such a limit; other simulations have none.
struct BufferLimits {
  int64_t copies = 0;
  std::map<std::string, int64_t> copies_of;  // Limits by tensor name, which replace `copies`.
  // Whether tensors of `copies_of` also take turns if they have an address, and if the kernel made
  // one and fills it again by the same source line. The kernel then runs as if it made a tensor for
  // each of these fills.
  bool splits = false;

  int64_t copies_for(const std::string& name) const {
    const auto at = copies_of.find(name);
    return at == copies_of.end() ? copies : at->second;
  }
};

// The tensors of one simulation.
class TensorMemory {
 public:
  // `places_sbuf` is false if SpillingMemory (spilling.h) manages SBUF. What the references refer
  // to must outlive the object.
  TensorMemory(const TraceFile& file, const Contents& contents, const simulator::DeviceSpec& device,
               const BufferLimits& buffer_limits, bool places_sbuf);

  // Returns the cells of a tensor that is accessed. `root` is the index in Contents::instances of
  // the instance that owns the memory, which is not a view. The first access gives the tensor its
  // place. Returns null for an operand in HBM that is only read or only written, because nothing
  // waits for it. The pointer is valid until end_access() notes the tensor's last instruction.
  //
  // Fails if there is no place for the tensor, if its given address lies outside the memory, or if
  // the tensors in use have too many cells. The message names the source line and the tensor.
  Result<TensorState*> begin_access(uint32_t root);
  // Notes that instruction `now` replaces the whole tensor without reading it. The new content gets
  // a place of its own, as if the kernel had allocated a new tensor: the compiler names each
  // content anew and places it itself. Has no effect on a tensor with a given address.
  void begin_anew(uint32_t root, uint32_t now);
  // Notes that the instruction of a source line replaces the whole tensor without reading it. With
  // BufferLimits::splits, the new content may take the next place.
  void take_turns(uint32_t root, uint32_t source);
  bool splits() const { return buffer_limits_.splits; }
  // Notes that instruction `now` has finished with the tensor. If `now` is the tensor's last
  // instruction, the tensor's memory becomes free. Otherwise the call has no effect.
  void end_access(uint32_t root, uint32_t now);

  // Returns warnings about tensors with addresses that overlap others in use. An overlap is not an
  // error. Only the first few warnings are kept.
  const std::vector<std::string>& overlaps() const { return overlaps_; }

 private:
  // The lives of the tensors at one range of addresses, by their first access.
  struct Reserved {
    MemoryRange range;
    std::vector<uint32_t> first, last;  // last: the latest end of the lives up to this one.
  };
  void collect_reserved();
  int32_t new_state(const Instance& instance);
  Result<std::vector<MemoryRange>> ranges_for(const Instance& instance) const;
  Status place(uint32_t root, int32_t state);
  void place_in_ring(uint32_t root, int32_t state, int64_t copies);
  void inherit(TensorState& state, const MemoryMap::Piece& piece);
  void inherit(TensorState& state, const TensorState& before, const MemoryMap::Piece& piece,
               uint8_t quarters);
  void inherit_cell(CellTimes& cell, const Interval& partitions, const Interval& bytes,
                    const TensorState& before) const;
  std::optional<MemoryRange> blocked(tile::Memory memory, const MemoryRange& range, uint32_t now,
                                     uint32_t last) const;
  void warn_of_overlap(const Instance& instance);
  Error no_memory_error(const Instance& instance) const;
  MemoryMap& map(tile::Memory memory) { return memory == tile::Memory::kPsum ? psum_ : sbuf_; }

  const TraceFile& file_;
  const Header& header_;
  const Contents& contents_;
  const simulator::DeviceSpec& device_;
  const BufferLimits& buffer_limits_;
  bool places_sbuf_;
  std::vector<int32_t> state_of_;  // By instance; kNobody if it has no state yet.
  std::vector<uint32_t> ordinal_;  // By instance: how many tensors of its name were made before it.
  std::deque<TensorState> states_;
  std::vector<int32_t> free_states_;
  size_t cells_ = 0;  // The cells of all states.
  MemoryMap sbuf_, psum_;
  std::vector<Reserved> reserved_[2];  // For SBUF and PSUM.
  // By tensor name: one state per slot, and how many tensors have had one.
  struct Ring {
    std::vector<int32_t> slots;
    size_t taken = 0;
  };
  std::map<std::string, Ring> rings_;
  std::map<uint32_t, uint32_t> filled_by_;  // By root: the line that filled it first.
  std::vector<std::string> overlaps_;
};

}  // namespace neuronmm::trace
