#pragma once
// How many times as much as predicted models have lost that were measured, in a JSON file.

#include <filesystem>
#include <vector>

#include "base/result.h"

namespace neuronmm::fit {

// Of models that were narrowed, and of those that were rounded.
struct Ratios {
  std::vector<double> shapes, rounding;
};

// Empty where there is no file. Errors: a file that is not one of these.
Result<Ratios> read_ratios(const std::filesystem::path& path);
Status write_ratios(const std::filesystem::path& path, const Ratios& ratios);

// Of none 1.
double geometric_mean(const std::vector<double>& ratios);

}  // namespace neuronmm::fit
