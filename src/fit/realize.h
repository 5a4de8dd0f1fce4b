#pragma once
// Writes the model that a search has chosen, by way of `compress` and `quantize`. `fit` calls it.

#include <filesystem>

#include "base/progress.h"
#include "base/result.h"
#include "compress/calibration/calibration_text.h"
#include "fit/search.h"
#include "ops/backend.h"

namespace neuronmm::fit {

// The folders and options for writing a model.
struct Realization {
  std::filesystem::path model, out;
  const compress::CalibrationText& calibration;
  // The folder of the dense model's statistics of all linear layers.
  std::filesystem::path statistics;
  // The folder for the narrowed model, which is then rounded.
  std::filesystem::path work;
  int64_t block = 32;
  bool force = false;
};

// Compresses the model if the choice narrows MLPs, and then rounds it if the choice rounds. Both
// steps continue where an interrupted run stopped, and delete its work if another choice was made
// since (unfinished_output.h).
Status realize(const Choice& choice, const Realization& options, const ops::Backend& backend,
               Progress& progress);

}  // namespace neuronmm::fit
