#pragma once
// The checked contents of a trace: its tensors with their lives, and the accesses to them.
// check_contents() makes them from the records, and the simulator and the passes over a trace use
// them.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "trainium/trace/accesses.h"
#include "trainium/trace/file.h"
#include "trainium/trace/records.h"

namespace neuronmm::trace {

// A tensor that the kernel made or was given.
struct Instance {
  static constexpr uint32_t kNever = UINT32_MAX;

  uint32_t kind = 0, source = 0;
  uint32_t root = 0;            // The instance that owns the memory, which differs for a view.
  int64_t base = 0;             // The begin in the root's rows (in HBM: in the root), in bytes.
  int64_t address = -1;         // Bytes inside a partition; -1 if the allocator chooses.
  int32_t first_partition = 0;  // Set if there is an address.
  uint32_t first = kNever, last = 0;  // The root's first and last instruction.
};

// Numbers the operands of the operations of a header. A number identifies where a caller keeps the
// operand's previous access, because most instructions repeat the one before them except for their
// place in HBM.
class OperandSlots {
 public:
  explicit OperandSlots(const Header& header);
  size_t index_of(uint32_t operation, size_t operand) const { return first_[operation] + operand; }
  size_t count() const { return first_.back(); }

 private:
  std::vector<size_t> first_;  // The first number of each operation, and the end.
};

struct Contents {
  std::vector<Instance> instances;
  AccessTable accesses;
  int64_t instructions = 0;

  // Returns the key of an operand's access. `has_run_time_index` says that an index moves the
  // access at run time. The operand must have been checked.
  Access key(const OperandRecord& operand, bool has_run_time_index) const {
    const Instance& instance = instances[operand.instance];
    return accesses.key({.root_kind = instances[instance.root].kind,
                         .kind = instance.kind,
                         .pattern = operand.pattern,
                         .base = instance.base,
                         .offset = has_run_time_index ? Access::kRunTimeOffset : operand.offset});
  }
  const Access& access(const OperandRecord& operand, bool has_run_time_index) const {
    return accesses.find(key(operand, has_run_time_index));
  }
};

// Checks the records. After success, every number in the records lies in its range. An error names
// the file, the offset, the expected value and the value found.
Result<Contents> check_contents(const TraceFile& file);

}  // namespace neuronmm::trace
