#pragma once
// A model folder in fp32 from one with weights of 8, 6 or 4 bits: what `compress` and `quantize`
// need, who want floats. Every weight is what its scale and byte stand for (docs/low_bit.md), which
// fp32 holds exactly.

#include <filesystem>

#include "base/progress.h"
#include "base/result.h"

namespace neuronmm::compress {

// Writes `out`, and replaces what this function wrote there before. Refused: a `model` of floats,
// what model::require_weight refuses, an `out` that io::FolderWriter refuses. Memory: some rows.
Status dequantize(const std::filesystem::path& model, const std::filesystem::path& out,
                  Progress& progress);

}  // namespace neuronmm::compress
