#pragma once
// Fills that the program asks for and nobody sees: zeros that are written over before they are
// read.
//
// Assumed, as dead stores go in any compiler; a published row says that it is done
// (docs/nki_legacy.md, conv1d).

#include <cstdint>

#include "trainium/trace/contents.h"
#include "trainium/trace/instruction_list.h"

namespace neuronmm::trace {

// A memset shrinks to the columns of which some are read before they are written again, and is
// dropped if there are none. Where these are not next to one another, it becomes several, if that
// is less work. Returns how many are dropped or smaller.
int64_t drop_dead_fills(InstructionList& list, const Contents& contents);

}  // namespace neuronmm::trace
