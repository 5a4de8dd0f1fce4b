#pragma once
// What rounding one part of a model costs it: the mean over held-out tokens of KL(dense ‖ the model
// with this part alone rounded), nats, activations in fp32.
//
// Every part is measured once, rounded to 4 bits by the text (compress/calibrated_rounding.h).
// Other formats follow from their errors, because a divergence is quadratic in a small error: the
// sum over a sample of rows of Σ d·(w - q)², d the mean square of what the column is multiplied
// with, q rounded to nearest, beside the same of 4 bits. What activations lose is what the whole
// model loses in 8 bits, factors per channel folded in, less what its weights do.

#include <array>
#include <filesystem>
#include <vector>

#include "compress/statistics/inputs.h"
#include "fit/part.h"

namespace neuronmm::fit {

using FormatLosses = std::array<double, kFormats>;  // of kCandidates

struct RoundingLosses {
  std::vector<std::array<FormatLosses, kParts>> layers;
  FormatLosses head = {};
  // What is lost by rounding activations where they meet rounded weights, whatever their format.
  double activations = 0.0;
};

// `statistics`: the folder of compress::gathered_statistics with all linear layers. Keeps what it
// has measured in `folder`, and goes on from there.
Result<RoundingLosses> measure_rounding(const compress::CompressionInputs& inputs,
                                        const std::filesystem::path& statistics,
                                        const std::filesystem::path& folder);

}  // namespace neuronmm::fit
