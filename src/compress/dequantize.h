#pragma once
// Converts a model folder with weights of 8, 6 or 4 bits, or with those of another program
// (io/foreign_weights.h), into one in fp32, because `compress` and `quantize` need float weights.
// Every weight becomes the exact value that its scale and byte stand for (docs/design/rounding.md),
// which fp32 represents exactly. What rounding has lost stays lost. The option --dequantize of both
// commands uses this.

#include <filesystem>

#include "base/progress.h"
#include "base/result.h"

namespace neuronmm::compress {

// Writes `out`. Replaces a model folder that is already there. Fails if the weights of `model` are
// floats, if model::require_weight refuses a tensor, or if io::FolderWriter refuses `out`. A model
// that is not compressed has the tensors of its published class (fused_sources.h). Memory holds
// some rows of one weight in fp32, or the matrices of one expert if the class stacks them.
Status dequantize(const std::filesystem::path& model, const std::filesystem::path& out,
                  Progress& progress);

}  // namespace neuronmm::compress
