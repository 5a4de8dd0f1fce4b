#pragma once
// A list of a trace's instructions that passes can change: they merge, drop and reorder
// instructions and reshape tensors. A trace is listed, passes work on the list, and the list
// becomes a trace again.

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
  uint32_t first_operand = 0, num_operands = 0;  // A range of InstructionList::operands.
};

struct ListedTensor {
  uint32_t kind = 0, source = 0, first_partition = 0;
  AllocateRecord allocation;
};

// A run of an innermost loop with independent iterations (affine_range). It holds the instruction
// where each iteration begins, and the end of the last one. There are at least two iterations.
struct ParallelLoop {
  std::vector<uint32_t> begins;
  uint32_t end = 0;
  size_t iterations() const { return begins.size(); }
};

struct InstructionList {
  Header header;
  std::string name;  // The trace's name.
  std::vector<ListedTensor> tensors;
  std::vector<ListedInstruction> instructions;
  std::vector<OperandRecord> operands;
  std::vector<ParallelLoop> loops;  // In order, without overlap.

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

// Lists a trace that has been checked (contents.h). Loops of one iteration, and loops that were
// left before their end, are not listed.
InstructionList list_instructions(const TraceFile& file);

// Makes a trace without loops. The instructions have moved, so `list.loops` cannot be stored in a
// trace.
TraceFile to_trace(const InstructionList& list);

}  // namespace neuronmm::trace
