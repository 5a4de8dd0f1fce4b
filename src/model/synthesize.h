#pragma once
// A model folder with random weights of a real shape: what speed depends on, without a download.

#include <cstdint>
#include <filesystem>

#include "base/progress.h"
#include "base/result.h"
#include "io/model_config.h"

namespace neuronmm::model {

// Writes `out` as a Hugging Face folder: config_json copied, weights in the config's dtype, sharded
// like Hugging Face's. Matrices and biases are normal(0, initializer_range), norms are ones. The
// same seed gives the same bytes with any number of threads. `config` is what `config_json` holds;
// `force` replaces an existing model folder. Interrupted or failed, it leaves nothing behind.
Status synthesize(const io::ModelConfig& config, const std::filesystem::path& config_json,
                  const std::filesystem::path& out, bool force, uint64_t seed, Progress& progress);

}  // namespace neuronmm::model
