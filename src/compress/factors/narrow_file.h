#pragma once
// Reads and writes the file of a narrow MLP in the work folder of a compression (narrow_layers.h).
// A checksum protects each file, so that an interrupted run never continues from a damaged one.

#include <filesystem>
#include <optional>

#include "base/result.h"
#include "compress/factors/narrow_mlp.h"

namespace neuronmm::compress {

// Writes the MLP, with its weights in `dtype`.
Status write_narrow_mlp(const std::filesystem::path& path, const NarrowMlp& mlp, DType dtype);
// Reads the MLP. Returns nothing if the file is missing or damaged.
std::optional<NarrowMlp> read_narrow_mlp(const std::filesystem::path& path);

}  // namespace neuronmm::compress
