#pragma once
// Text that a model writes itself, as data for compression and fine-tuning: a smaller copy should
// be good at what the original model would say, whatever texts are available.

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "model/transformer.h"

namespace neuronmm::model {

// How much text a model is to write.
struct SelfGeneration {
  // The model's folder.
  std::filesystem::path model;
  int64_t tokens = 0;  // the smallest total number of tokens
  int64_t length = 0;  // tokens of one sequence, including the begin-of-text token
  uint64_t seed = 0;
};

// Returns sequences of `length` tokens. Each is sampled at temperature 1 after a begin-of-text
// token, or after an end-of-text token if the model has no other. An end-of-text token within a
// sequence does not end it.
//
// The sequences are stored in the folder `work`, one file per batch. Batches that are already there
// are read and not generated again. Errors: a model that has neither token; an interrupt, after
// which the finished batches stay.
Result<std::vector<std::vector<TokenId>>> self_generated(const SelfGeneration& wanted,
                                                         const std::filesystem::path& work,
                                                         const ops::Backend& backend,
                                                         Progress& progress);

}  // namespace neuronmm::model
