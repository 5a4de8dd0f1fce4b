#pragma once
// Compression that knows the error it has made so far. Layer by layer, the calibration text runs
// through the dense model and through the compressed prefix; each matrix then aims at what the
// dense model has there, given what it will really be handed.
//
// Of one layer, per token: x and x̂ the input of gate and up in the dense and in the compressed
// model; ŷ what the dense down makes of the compressed gate and up; t what down would have to
// yield for the layer's output to be the dense one (the dense output less the compressed residual,
// so the error that attention carries along counts too). Letters of ops/weights.h, transposed: w_t
// ~ v_t·u_t.
//
//   gate, up   w̃_t = w_t·A, A guesses x from x̂ (refit.h)      v_t·u_t = the rank-r matrix with the
//              smallest Σ ‖(w̃_t - v_t·u_t) x̂‖²
//   down       w̃_t = B·w_t, B guesses t from ŷ                v_t·u_t = the same with ŷ: P Pᵀ·w̃_t
//
// Factors of int8 are rounded here too, so the layers after them answer for their rounding. That of
// weights that stay dense (attention's) is not seen.
//
// Both are the closed form of min Σ ‖w_t·x - v_t·u_t·x̂‖² over all rank-r factors (down: over those
// that read from the rows of w_t), pulled towards the original weight. Every eigenproblem is [H,
// H]; the Gram matrix of down's wide input is never formed.

#include "base/progress.h"
#include "base/result.h"
#include "compress/factorize_matrix.h"
#include "compress/inputs.h"

namespace neuronmm::compress {

// Leaves the factors in `work` and goes on from what an interrupted run left there. The reports, in
// the plan's order, have the energy that each truncation lost of its refitted matrix.
Result<std::vector<MatrixReport>> compress_error_aware(const CompressionInputs& inputs,
                                                       const StagedWork& work,
                                                       const OnMatrix& on_matrix);

}  // namespace neuronmm::compress
