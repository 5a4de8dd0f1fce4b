#pragma once
// The linear layers of a dense model rounded to few bits by the Gram matrices of what they read
// (mlp_statistics.h), each on its own.

#include <filesystem>
#include <functional>
#include <string>

#include "base/progress.h"
#include "base/result.h"
#include "compress/low_bit_rounding.h"
#include "compress/smoothing.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "ops/low_bit.h"

namespace neuronmm::compress {

struct ModelRounding {
  const io::Checkpoint& checkpoint;
  const io::ModelConfig& config;
  // The format of a tensor of the checkpoint. Asked for all projections and for the LM head: a tied
  // head is the embedding table.
  std::function<ops::LowBitFormat(const std::string& tensor)> format_of;
  std::filesystem::path statistics;  // the folder of gather_statistics(Gathered::kAllLinears)
  TensorScales scales = {};          // of the weights; their inputs are divided by those of columns
  RoundingSettings settings = {};
};

// Leaves the codes of every linear tensor in `work` (codes_file.h) and skips those that are there.
// Interrupted: the next call goes on. Memory: the largest Gram matrix, its factor and one weight.
Status round_model(const ModelRounding& rounding, const std::filesystem::path& work,
                   Progress& progress);

}  // namespace neuronmm::compress
