#pragma once
// Writes the model that a search has chosen.

#include <filesystem>

#include "base/progress.h"
#include "base/result.h"
#include "compress/calibration/calibration_text.h"
#include "fit/search.h"
#include "ops/backend.h"

namespace neuronmm::fit {

struct Realization {
  std::filesystem::path model, out;
  const compress::CalibrationText& calibration;
  std::filesystem::path statistics;  // of the dense model, of all linear layers
  std::filesystem::path work;        // for the narrowed model that is then rounded
  bool two_sided = true;             // the statistics have a metric
  int64_t block = 32;
  bool force = false;
};

// Compresses where shapes differ from the model's, rounds where the choice does; each goes on from
// where it was interrupted.
Status realize(const Choice& choice, const Realization& how, const ops::Backend& backend,
               Progress& progress);

}  // namespace neuronmm::fit
