#pragma once
// PSUM for a kernel that wants more than there is. A tile of PSUM whose content the Tensor engine
// has written before anything else is done with it moves to SBUF, from where it may be spilled.
//
// Assumed: a published kernel (docs/nki_legacy.md, attention's first version) keeps 512 KiB per
// partition of products, so the compiler must have put them somewhere.

#include <cstdint>

#include "trainium/trace/contents.h"
#include "trainium/trace/instruction_list.h"

namespace neuronmm::trace {

// Returns how many tiles were moved. Kinds of which most lives at a time go first, until the rest
// fits into `capacity` bytes per partition, in banks of `bank_bytes`, or nothing is left that can
// be moved.
int64_t move_out_of_psum(InstructionList& list, const Contents& contents, int64_t capacity,
                         int64_t bank_bytes);

}  // namespace neuronmm::trace
