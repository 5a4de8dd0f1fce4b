#pragma once
// A calibration text that the dense model writes itself, for want of a better one.

#include <filesystem>

#include "base/progress.h"
#include "base/result.h"
#include "compress/calibration/calibration_text.h"
#include "ops/backend.h"

namespace neuronmm::compress {

struct GeneratedText {
  std::filesystem::path model;
  int64_t tokens = 0;
  uint64_t seed = 0;
};

// Refuses too few tokens, as calibration_sequences() does.
Status check_generated(const GeneratedText& wanted, const io::ModelConfig& config);

// Sampled at temperature 1, in sequences of at most 512 tokens that each begin with a begin-of-text
// token (model/self_generated.h). The sequences are kept in `work`, so that an interrupted run goes
// on. The same model, tokens and seed give the same text on the same kind of CPU.
Result<CalibrationSequences> generated_sequences(const GeneratedText& wanted,
                                                 const io::ModelConfig& config,
                                                 const ops::Backend& backend,
                                                 const std::filesystem::path& work,
                                                 Progress& progress);

}  // namespace neuronmm::compress
