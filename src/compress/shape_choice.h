#pragma once
// Chooses the sizes of every MLP of a model by what they are predicted, or measured, to cost.

#include <filesystem>
#include <vector>

#include "compress/inputs.h"
#include "compress/predicted_loss.h"
#include "compress/shaped_model.h"

namespace neuronmm::compress {

// Whether there are sizes that keep what the rule asks for; to be asked before any work is done.
Status check_sizes(const io::ModelConfig& config, const ShapeRequest& request);

// Predicts what every size of every layer costs and chooses. Form auto and measured sizes are
// decided by models that are narrowed by the statistics alone (form_trial.h), which needs a text in
// `inputs`. What was predicted and measured stays in `work`, so that an interrupted run goes on.
Result<ShapedModel> choose_shapes(const CompressionInputs& inputs, const ShapeRequest& request,
                                  const std::filesystem::path& work);

// The losses of every layer at every size, predicted and then corrected by what the sizes are
// measured to cost that the request chooses (measured_losses.h).
Result<std::vector<PredictedLosses>> measured_curves(const CompressionInputs& inputs,
                                                     const ShapeRequest& request,
                                                     const std::filesystem::path& work);

// Whether fitting down on the text once more (down_fit.h) is worth its time and its own error.
bool is_worth_a_fit(const ShapedModel& model, const WeightFormats& weights);

}  // namespace neuronmm::compress
