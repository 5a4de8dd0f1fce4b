#pragma once
// What a compiler need not compute: the same thing again, as an operation on what a loop does not
// change, and what nobody reads.

#include <cstdint>

#include "trainium/trace/contents.h"
#include "trainium/trace/instruction_list.h"

namespace neuronmm::trace {

struct Redundancy {
  int64_t repeated = 0, unread = 0;  // instructions that are gone
};

// An instruction of a compute engine that repeats an earlier one, operands and all, is dropped, and
// what read its result reads the earlier one's. Where that one is in a parallel loop and its
// operands are not written there, it moves before the loop. An instruction whose results nobody
// reads, on chip, is dropped too.
//
// Assumed: that the compiler does this is plain from any compiler, and documented nowhere. Loads
// stay: the published times of the matmul tutorial's steps, of which one moves loads out of loops
// by hand, say that it does not move them.
Redundancy drop_redundant(InstructionList& list, const Contents& contents);

}  // namespace neuronmm::trace
