#pragma once
// Computes the predicted losses of every layer of a model at every size, and keeps them in files.
// shape_choice.h is the caller.

#include <filesystem>
#include <vector>

#include "base/result.h"
#include "compress/sizes/predicted_loss.h"
#include "compress/statistics/gathered_statistics.h"
#include "compress/statistics/inputs.h"

namespace neuronmm::compress {

// Returns the losses of all layers. Writes a file per layer to files.losses (losses_file.h) and
// reads the files that are there. Several layers run at once, on this process or on all processes.
Result<std::vector<PredictedLosses>> predicted_curves(const CompressionInputs& inputs,
                                                      const StatisticsFiles& files);

// Returns `files`, with `work` as the folder of losses if the folder of saved losses is read-only
// and lacks a layer.
StatisticsFiles with_usable_losses(StatisticsFiles files, const io::ModelConfig& config,
                                   const std::filesystem::path& work);

// Returns the order in which the neurons of a layer are kept. predicted_curves() must have run,
// because the file of the layer's losses holds the order. Fails if the file cannot be read.
Result<std::vector<int32_t>> neuron_order_of(const StatisticsFiles& files, int64_t layer,
                                             const io::ModelConfig& config);

}  // namespace neuronmm::compress
