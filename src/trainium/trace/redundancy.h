#pragma once
// Removes instructions that a compiler need not run: those that repeat an earlier one (for example,
// an operation on values that a loop does not change), and those whose results nobody reads. The
// model of the legacy compiler uses the pass.

#include <cstdint>

#include "trainium/trace/contents.h"
#include "trainium/trace/instruction_list.h"

namespace neuronmm::trace {

struct Redundancy {
  int64_t repeated = 0, unread = 0;  // Instructions that were removed.
};

// Drops redundant instructions. If an instruction of a compute engine repeats an earlier one with
// the same operands, the later one is dropped, and its readers read the earlier result. If the
// earlier one is in a parallel loop that does not write its operands, it moves before the loop. An
// instruction is also dropped if nobody reads its results on chip.
//
// Assumed: any compiler does this, but no document says so. Loads stay. One step of the matmul
// tutorial moves loads out of loops by hand, and the published times show that the compiler does
// not do it.
Redundancy drop_redundant(InstructionList& list, const Contents& contents);

}  // namespace neuronmm::trace
