#pragma once
// A checked file with the tensors of a narrow MLP, in the work folder of a compression.

#include <filesystem>
#include <optional>

#include "base/result.h"
#include "compress/factors/narrow_mlp.h"

namespace neuronmm::compress {

// Weights in `dtype`.
Status write_narrow_mlp(const std::filesystem::path& path, const NarrowMlp& mlp, DType dtype);
// Nothing unless a whole file lies there.
std::optional<NarrowMlp> read_narrow_mlp(const std::filesystem::path& path);

}  // namespace neuronmm::compress
