#pragma once
// Measures the loss that rounding one part of a model causes. It is the mean over held-out tokens
// of KL(dense ‖ the model in which only this part is rounded), in nats, with activations in fp32.
// ModelSearch adds these losses up.
//
// Every part is measured once, rounded to 4 bits with the calibration text
// (compress/rounding/calibrated_rounding.h). The losses of other formats follow from their errors,
// because a divergence is quadratic in a small error. The error of a format is the sum over a
// sample of rows of Σ d·(w - q)², relative to that of 4 bits. Here d is the mean square of what the
// column is multiplied with, and q is w rounded to nearest. The loss by rounding activations is the
// loss of the whole model in 8 bits, with smoothing factors folded in, minus the losses of its
// weights.

#include <array>
#include <filesystem>
#include <vector>

#include "compress/statistics/inputs.h"
#include "fit/part.h"

namespace neuronmm::fit {

// The number of tokens that go through half of the model for every part, and of which every
// kProbeStride-th has its predictions compared. Assumed.
inline constexpr int64_t kProbeTokens = 256, kProbeStride = 2;

using FormatLosses = std::array<double, kFormats>;  // by index in kCandidates

// The losses of all parts of a model.
struct RoundingLosses {
  std::vector<std::array<FormatLosses, kParts>> layers;
  FormatLosses head = {};
  // The losses of an embedding table that is not the LM head: looked-up rows are rounded.
  FormatLosses embedding = {};
  // The loss by rounding the activations that rounded weights are multiplied with, whatever the
  // weights' format is.
  double activations = 0.0;
};

// Returns whether all losses are saved in `folder`.
bool rounding_is_measured(const std::filesystem::path& folder, const io::ModelConfig& config);

// Measures all losses. `statistics` is the folder of compress::gathered_statistics with all linear
// layers. Finished measurements are kept in `folder`, and a later call continues from them.
Result<RoundingLosses> measure_rounding(const compress::CompressionInputs& inputs,
                                        const std::filesystem::path& statistics,
                                        const std::filesystem::path& folder);

}  // namespace neuronmm::fit
