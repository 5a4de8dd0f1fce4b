#pragma once
// A number that was measured, in a checked file of a compression's work folder.

#include <filesystem>
#include <optional>

#include "base/result.h"

namespace neuronmm::compress {

Status save_measured(const std::filesystem::path& path, double value);
// Nothing unless a whole file lies there.
std::optional<double> read_measured(const std::filesystem::path& path);

}  // namespace neuronmm::compress
