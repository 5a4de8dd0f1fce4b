#pragma once
// The predicted losses of every layer of a model at every size.

#include <filesystem>
#include <vector>

#include "base/result.h"
#include "compress/gathered_statistics.h"
#include "compress/inputs.h"
#include "compress/predicted_loss.h"

namespace neuronmm::compress {

// Leaves a file per layer in files.losses (losses_file.h) and reads those that are there. Several
// layers run at once. `work` is the folder that the message about an interrupt names.
Result<std::vector<PredictedLosses>> predicted_curves(const CompressionInputs& inputs,
                                                      const StatisticsFiles& files,
                                                      const std::filesystem::path& work);

// Returns `files` with `work` as the folder of losses if nothing may be written into the folder of
// saved losses and it lacks a layer.
StatisticsFiles with_usable_losses(StatisticsFiles files, const io::ModelConfig& config,
                                   const std::filesystem::path& work);

// Returns the order in which the neurons of a layer stay, which predicting its losses has left.
Result<std::vector<int32_t>> neuron_order_of(const StatisticsFiles& files, int64_t layer,
                                             const io::ModelConfig& config);

}  // namespace neuronmm::compress
