#pragma once
// Text that a model writes itself: what it would say is what a smaller copy of it should be good
// at, whatever texts are at hand.

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "model/transformer.h"

namespace neuronmm::model {

struct SelfGeneration {
  std::filesystem::path model;
  int64_t tokens = 0;  // at least so many
  int64_t length = 0;  // of a sequence, begin-of-text included
  uint64_t seed = 0;
};

// Sequences of `length` tokens, each sampled at temperature 1 after a begin-of-text token (or,
// where the model has none, an end-of-text token); an end of text within is followed by more. They
// are kept in the folder `work`, a batch of them per file; those that are there are not written
// again. Errors: a model that has neither token; an interrupt, which keeps the batches that are
// done.
Result<std::vector<std::vector<TokenId>>> self_generated(const SelfGeneration& wanted,
                                                         const std::filesystem::path& work,
                                                         const ops::Backend& backend,
                                                         Progress& progress);

}  // namespace neuronmm::model
