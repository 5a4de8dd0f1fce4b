#pragma once
// Rounds all linear layers of a model, dense or compressed, to few bits by the Gram matrices of
// their inputs (mlp_statistics.h). calibrated_rounding.h is the caller; large models take hours.

#include <filesystem>

#include "base/progress.h"
#include "base/result.h"
#include "compress/rounding/tensor_rounding.h"

namespace neuronmm::compress {

// Writes the codes of every linear tensor to `work` (codes_file.h) and skips tensors whose codes
// are there. After an interrupt the next call continues. Memory holds the largest Gram matrices of
// a layer, a factor of one of them, and one weight.
Status round_model(const ModelRounding& rounding, const std::filesystem::path& work,
                   Progress& progress);

}  // namespace neuronmm::compress
