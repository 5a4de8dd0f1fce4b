#pragma once
// Calibration text that the dense model writes itself (`--self-generated`), for users who have no
// better text. Too few tokens are refused before anything is generated.

#include <filesystem>

#include "base/progress.h"
#include "base/result.h"
#include "compress/calibration/calibration_text.h"
#include "ops/backend.h"

namespace neuronmm::compress {

// A request for `tokens` tokens of text, written by the model in the folder `model`.
struct GeneratedText {
  std::filesystem::path model;
  int64_t tokens = 0;
  uint64_t seed = 0;
};

// Fails unless `wanted` asks for more tokens than the model's hidden_size. calibration_sequences()
// refuses too few tokens in the same way.
Status check_generated(const GeneratedText& wanted, const io::ModelConfig& config);

// Lets the model write text, sampled at temperature 1, in sequences of at most 512 tokens. Each
// sequence begins with a begin-of-text token (model/self_generated.h). The folder `work` keeps the
// sequences, so that an interrupted run can continue. The same model, number of tokens and seed
// give the same text on the same kind of CPU.
Result<CalibrationSequences> generated_sequences(const GeneratedText& wanted,
                                                 const io::ModelConfig& config,
                                                 const ops::Backend& backend,
                                                 const std::filesystem::path& work,
                                                 Progress& progress);

}  // namespace neuronmm::compress
