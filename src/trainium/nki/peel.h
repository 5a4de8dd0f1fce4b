#pragma once
// A program none of whose sizes depends on a loop, for the dialect whose loops are traced once.

#include "base/result.h"
#include "trainium/tile/program.h"

namespace neuronmm::nki {

// A loop whose last tiles are smaller becomes a loop over the whole ones and, behind it, the others
// one by one, with their own constant sizes; what is empty disappears. So the text grows with the
// number of dimensions that are ragged, and not with the shape. Loops that run once are gone.
//
// In the result NcMatmul::first says nothing: where a loop over a contraction is cut, its last
// matmul adds to the sums of the loop before. That every sum begins where its buffer is allocated
// is what check_sums finds out before.
Result<tile::Program> peel_ragged_loops(const tile::Program& program);

// Fails where a buffer in PSUM gets a second sum before it is allocated again.
Status check_sums(const tile::Program& program);

}  // namespace neuronmm::nki
