#pragma once
// Measures how much the model's predictions change if one MLP matrix alone is truncated: the mean
// over tokens of KL(p_dense ‖ p_truncated), in nats, at two ranks per matrix. measured_ranks.h uses
// it to allocate ranks. `fit` takes its tokens with probe_sequences(), too.
//
// A few hundred calibration tokens run through the dense model once, layer by layer. At every
// matrix and rank, a branch with that truncation starts and runs through the remaining dense
// layers. The cost is about that of 512 tokens of prefill per matrix, one evaluation of the LM head
// per branch, and one factorization per matrix. Memory holds one layer and the hidden states of all
// branches, 4·H bytes per token and branch.

#include <vector>

#include "base/result.h"
#include "compress/linear_algebra/gram.h"
#include "compress/sizes/allocate.h"
#include "compress/statistics/inputs.h"

namespace neuronmm::compress {

// The number of calibration tokens that are used. Four times as many tokens give the same
// allocations on the bundled model (measured).
inline constexpr int64_t kProbeTokens = 512;

// Returns about kProbeTokens tokens of `text`: at most the first 128 tokens of each of several
// sequences that are evenly spaced over it.
std::vector<std::vector<text::TokenId>> probe_sequences(const CalibrationSequences& text);

// Returns the sensitivities of the matrices that `plan` compresses, in its order, at its ranks and
// at their floors. `grams` are those of the dense model; null means plain SVD. Factors are not
// rounded. An interrupt is noticed between branches, and nothing is kept then. Fails if the model
// makes NaN or infinity of the text.
Result<std::vector<MatrixSensitivity>> measure_sensitivity(const CompressionInputs& inputs,
                                                           const Plan& plan, int64_t block,
                                                           const GramSource& grams);

}  // namespace neuronmm::compress
