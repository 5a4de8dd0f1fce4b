#pragma once
// What the records of a trace say, checked: the tensors with their lives, and the accesses to them.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "trainium/trace/accesses.h"
#include "trainium/trace/file.h"
#include "trainium/trace/records.h"

namespace neuronmm::trace {

// A tensor that the kernel made (or was given).
struct Instance {
  static constexpr uint32_t kNever = UINT32_MAX;

  uint32_t kind = 0, source = 0;
  uint32_t root = 0;            // the instance that owns the memory: itself, unless it is a view
  int64_t base = 0;             // where it begins in the root's rows (HBM: in the root), bytes
  int64_t address = -1;         // bytes inside a partition; -1: the allocator's choice
  int32_t first_partition = 0;  // with an address
  uint32_t first = kNever, last = 0;  // of the root: its first and last instruction
};

// A number for each operand of each operation of a header, to keep what it was the last time: most
// instructions repeat the one before them but for where in HBM they read.
class OperandSlots {
 public:
  explicit OperandSlots(const Header& header);
  size_t of(uint32_t operation, size_t operand) const { return first_[operation] + operand; }
  size_t count() const { return first_.back(); }

 private:
  std::vector<size_t> first_;  // by operation, and the end
};

struct Contents {
  std::vector<Instance> instances;
  AccessTable accesses;
  int64_t instructions = 0;

  // The access that an operand is; `anywhere`: an index moves it. Only of what has been checked.
  Access key(const OperandRecord& operand, bool anywhere) const {
    const Instance& instance = instances[operand.instance];
    return accesses.key({.root_kind = instances[instance.root].kind,
                         .kind = instance.kind,
                         .pattern = operand.pattern,
                         .base = instance.base,
                         .offset = anywhere ? Access::kAnywhere : operand.offset});
  }
  const Access& access(const OperandRecord& operand, bool anywhere) const {
    return accesses.find(key(operand, anywhere));
  }
};

// Fails with the file, the offset, what was expected and what was found. Afterwards every number in
// the records is known to lie in its range.
Result<Contents> check_contents(const TraceFile& file);

}  // namespace neuronmm::trace
