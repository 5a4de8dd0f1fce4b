#pragma once
// Reads and writes correction.json, which holds ratios of measured to predicted losses. `fit` keeps
// one such file per model, so that a later run begins with corrected predictions.

#include <filesystem>
#include <vector>

#include "base/result.h"

namespace neuronmm::fit {

// Ratios of measured to predicted losses of earlier models: `shapes` of models whose MLPs were
// narrowed, `rounding` of models that were rounded.
struct Ratios {
  std::vector<double> shapes, rounding;
};

// Reads the file. The lists are empty if there is no file. Errors: another kind of file, and ratios
// that are not between 1e-6 and 1e6.
Result<Ratios> read_ratios(const std::filesystem::path& path);
// Writes the file.
Status write_ratios(const std::filesystem::path& path, const Ratios& ratios);

// Returns the geometric mean, or 1 for an empty list.
double geometric_mean(const std::vector<double>& ratios);

}  // namespace neuronmm::fit
