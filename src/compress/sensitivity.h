#pragma once
// How much the model's predictions suffer when one MLP matrix alone is truncated: the mean over
// tokens of KL(p_dense ‖ p_truncated), in nats, measured, at two ranks per matrix.
//
// A few hundred calibration tokens run through the dense model once, layer by layer. At every
// matrix and rank a branch with that truncation leaves and goes on through the dense rest, so the
// whole costs about as much as (matrices x 512) tokens of prefill, an evaluation of the vocabulary
// for each branch, and one factorization of every matrix. In memory: one layer, and the hidden
// states of all branches, 4·H bytes per token and branch.

#include <vector>

#include "base/result.h"
#include "compress/allocate.h"
#include "compress/gram.h"
#include "compress/inputs.h"

namespace neuronmm::compress {

// Measured on the bundled model: 508 tokens of one sequence give the allocations that 2032 of four
// do.
inline constexpr int64_t kProbeTokens = 512;

// About kProbeTokens tokens of `text`: the first 128 at most of sequences that are spread over it
// evenly.
std::vector<std::vector<text::TokenId>> probe_sequences(const CalibrationSequences& text);

// Of the matrices that `plan` compresses, in its order, at its ranks and at their floors. `grams`
// are the dense model's; null: truncations are those of plain SVD. Factors are not rounded. Asks
// interrupted() between branches; keeps nothing then.
Result<std::vector<MatrixSensitivity>> measure_sensitivity(const CompressionInputs& inputs,
                                                           const Plan& plan, int64_t block,
                                                           const GramSource& grams);

}  // namespace neuronmm::compress
