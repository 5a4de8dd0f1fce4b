#pragma once
// Stores one measured number in a file with a checksum in the work folder of a compression, so that
// a continued run need not measure it again.

#include <filesystem>
#include <optional>

#include "base/result.h"

namespace neuronmm::compress {

// Writes the file.
Status save_measured(const std::filesystem::path& path, double value);
// Reads the file. Returns nothing if it is missing or damaged.
std::optional<double> read_measured(const std::filesystem::path& path);

}  // namespace neuronmm::compress
