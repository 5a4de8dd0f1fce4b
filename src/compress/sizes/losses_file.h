#pragma once
// Stores the predicted losses of a layer in a file with a checksum. An interrupted run that
// continues, or another run with the same method, need not compute them again.

#include <filesystem>
#include <optional>

#include "base/result.h"
#include "compress/sizes/predicted_loss.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// Returns the path of a layer's file.
std::filesystem::path losses_path(const std::filesystem::path& folder, int64_t layer);
// Writes a layer's file.
Status save_losses(const std::filesystem::path& folder, int64_t layer,
                   const PredictedLosses& losses);
// Reads a layer's file. Returns nothing if it is missing or damaged, or if it belongs to a model of
// other sizes.
std::optional<PredictedLosses> read_losses(const std::filesystem::path& folder, int64_t layer,
                                           const io::ModelConfig& config);

}  // namespace neuronmm::compress
