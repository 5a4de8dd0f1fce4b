#pragma once
// The instructions of a trace where a pass can change them: merge, drop and reorder them, and give
// tensors another shape. A trace is listed, passes work on the list, and it becomes a trace again.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainium/trace/file.h"
#include "trainium/trace/header.h"
#include "trainium/trace/records.h"

namespace neuronmm::trace {

struct ListedInstruction {
  uint32_t operation = 0, source = 0;
  uint32_t first_operand = 0, num_operands = 0;  // in InstructionList::operands
};

struct ListedTensor {
  uint32_t kind = 0, source = 0, first_partition = 0;
  AllocateRecord place;
};

// An innermost loop whose iterations are independent (affine_range), as it ran once: where each of
// its iterations begins, and the end of the last, by instruction. There are two iterations at
// least.
struct ParallelLoop {
  std::vector<uint32_t> begins;
  uint32_t end = 0;
  size_t iterations() const { return begins.size(); }
};

struct InstructionList {
  Header header;
  std::string name;  // of the trace
  std::vector<ListedTensor> tensors;
  std::vector<ListedInstruction> instructions;
  std::vector<OperandRecord> operands;
  std::vector<ParallelLoop> loops;  // in order; they do not overlap

  std::span<const OperandRecord> operands_of(const ListedInstruction& instruction) const {
    return {operands.data() + instruction.first_operand, instruction.num_operands};
  }
  std::span<OperandRecord> operands_of(const ListedInstruction& instruction) {
    return {operands.data() + instruction.first_operand, instruction.num_operands};
  }
  const Operation& operation(const ListedInstruction& instruction) const {
    return header.operations[instruction.operation];
  }
};

// Of a trace that has been checked (contents.h). Loops of one iteration are none, and a loop that
// was left before its end is not listed.
InstructionList list_instructions(const TraceFile& file);

// Without loops: `list.loops` has no place in a trace whose instructions have moved.
TraceFile to_trace(const InstructionList& list);

}  // namespace neuronmm::trace
