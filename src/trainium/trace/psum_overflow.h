#pragma once
// Makes a legacy kernel fit that needs more PSUM than there is. Some tiles of PSUM are not read
// before the Tensor engine has written all of their content. Such tiles move to SBUF, from where
// they may be spilled.
//
// Assumed: a published kernel (docs/reference/nki_legacy.md, attention's first version) keeps 512
// KiB of products per partition, so the compiler must have put them somewhere.

#include <cstdint>

#include "trainium/trace/contents.h"
#include "trainium/trace/instruction_list.h"

namespace neuronmm::trace {

// Moves tiles to SBUF and returns how many. The kind of tensor that takes most at the peak moves
// first. It stops when the rest fits into `capacity` bytes per partition, in banks of `bank_bytes`,
// or when no further tile can move.
int64_t move_out_of_psum(InstructionList& list, const Contents& contents, int64_t capacity,
                         int64_t bank_bytes);

}  // namespace neuronmm::trace
