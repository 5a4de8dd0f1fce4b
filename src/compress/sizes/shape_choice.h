#pragma once
// Chooses the sizes of every MLP of a model by what they are predicted or measured to cost.
// compress.cc and fit/ call it. A run may be interrupted and continued.

#include <filesystem>
#include <vector>

#include "compress/sizes/predicted_loss.h"
#include "compress/sizes/shaped_model.h"
#include "compress/statistics/inputs.h"

namespace neuronmm::compress {

// Fails if no sizes keep as little as the rule asks for. Callers ask before any work is done.
Status check_sizes(const io::ModelConfig& config, const ShapeRequest& request);

// Predicts what every size of every layer costs and chooses sizes. Form auto and measured sizes
// need measurements on models that are narrowed by the statistics alone (held_out_divergence.h);
// these need a text in `inputs`. Predictions and measurements are kept in `work`, so that an
// interrupted run continues.
Result<ShapedModel> choose_shapes(const CompressionInputs& inputs, const ShapeRequest& request,
                                  const std::filesystem::path& work);

// Returns the losses of every layer at every size. They are predicted and then corrected by
// measuring the sizes that the request chooses (measured_losses.h).
Result<std::vector<PredictedLosses>> measured_curves(const CompressionInputs& inputs,
                                                     const ShapeRequest& request,
                                                     const std::filesystem::path& work);

// Returns whether fitting down on the text once more (down_fit.h) gains more than it costs in time
// and in its own error.
bool is_worth_a_fit(const ShapedModel& model, const WeightFormats& weights);

}  // namespace neuronmm::compress
