#pragma once
// A checked file with the predicted losses of a layer, so that a run that goes on, or another one
// with the same method, need not compute them again.

#include <filesystem>
#include <optional>

#include "base/result.h"
#include "compress/sizes/predicted_loss.h"
#include "io/model_config.h"

namespace neuronmm::compress {

std::filesystem::path losses_path(const std::filesystem::path& folder, int64_t layer);
Status save_losses(const std::filesystem::path& folder, int64_t layer,
                   const PredictedLosses& losses);
// Nothing unless a whole file of a layer of this model lies there.
std::optional<PredictedLosses> read_losses(const std::filesystem::path& folder, int64_t layer,
                                           const io::ModelConfig& config);

}  // namespace neuronmm::compress
