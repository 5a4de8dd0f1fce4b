#pragma once
// This file rewrites a program so that none of its sizes depends on a loop. The emitter needs this
// for the legacy dialect, whose loops are traced once. emit() (emitter.h) calls check_sums() and
// then peel_ragged_loops(). Errors name the program and go to the user of `neuronmm emit`, who can
// choose the other dialect.

#include "base/result.h"
#include "trainium/tile/program.h"

namespace neuronmm::nki {

// Returns the program with constant sizes. A loop whose last tiles are smaller becomes a loop over
// the whole tiles. The other tiles follow it one by one, with constant sizes of their own, and
// empty ones disappear. The text therefore grows with the number of ragged dimensions, but not with
// the shape. Loops that run once disappear. Fails if a size depends on a loop in another way.
//
// NcMatmul::sum_loops is empty in the result. If a loop over a contraction is cut, its last matmul
// adds to the sums of the loop before it. Call check_sums first, which verifies that every sum
// begins where its buffer is allocated.
Result<tile::Program> peel_ragged_loops(const tile::Program& program);

// Fails if a buffer in PSUM gets a second sum before it is allocated again. The message names the
// buffer. The legacy dialect has no way to say that a sum begins anew.
Status check_sums(const tile::Program& program);

}  // namespace neuronmm::nki
