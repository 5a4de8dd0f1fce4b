#pragma once
// Writes a model folder with random weights for a given config. Speed depends on shapes only, so
// benchmarks and tests can use such a folder without a download. `neuronmm synthesize` calls it.

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/progress.h"
#include "base/result.h"
#include "io/folder_writer.h"
#include "io/model_config.h"

namespace neuronmm::model {

// Writes `out` as a Hugging Face folder: a copy of config_json, and weights in the config's dtype,
// sharded like Hugging Face's. Matrices and biases are normal(0, initializer_range); norms are
// ones. With `quantization`, linear weights are written in these formats, as `quantize` writes
// them; a matrix then consists of 256 rounded rows in random order, so that a model of any size
// takes little time and memory. The same seed gives the same bytes with any number of threads.
// `config` is the content of `config_json`. `force` replaces an existing model folder. If the
// function fails or is interrupted, it leaves nothing behind.
Status synthesize(const io::ModelConfig& config, const std::filesystem::path& config_json,
                  const std::filesystem::path& out, bool force, uint64_t seed, Progress& progress,
                  const io::BeforeOutput<>& before_output = {},
                  const std::optional<io::Quantization>& quantization = {});

}  // namespace neuronmm::model
