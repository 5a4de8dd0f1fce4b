#pragma once
// The linear layers of a model, dense or compressed, rounded to few bits by the Gram matrices of
// what they read (mlp_statistics.h).

#include <filesystem>

#include "base/progress.h"
#include "base/result.h"
#include "compress/rounding/tensor_rounding.h"

namespace neuronmm::compress {

// Leaves the codes of every linear tensor in `work` (codes_file.h) and skips those that are there.
// Interrupted: the next call goes on. Memory: the largest Gram matrices of a layer, a factor of one
// and one weight.
Status round_model(const ModelRounding& rounding, const std::filesystem::path& work,
                   Progress& progress);

}  // namespace neuronmm::compress
