#pragma once
// Training text that the teacher writes itself: what it would say is what its copy should learn to
// say, whatever texts are at hand.

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "finetune/dataset.h"
#include "model/transformer.h"

namespace neuronmm::finetune {

struct SelfGeneration {
  std::filesystem::path teacher;
  int64_t tokens = 0;  // at least so many
  int64_t length = 0;  // of a sequence, begin-of-text included
  uint64_t seed = 0;
};

// Sequences of `length` tokens, each sampled at temperature 1 after a begin-of-text token (or,
// where the model has none, an end-of-text token); an end of text within is followed by more. They
// are kept in the folder `work`, a batch of them per file; those that are there are not written
// again. Errors: a teacher that has neither token; an interrupt, which keeps the batches that are
// done.
Result<std::vector<Example>> self_generated(const SelfGeneration& wanted,
                                            const std::filesystem::path& work,
                                            const ops::Backend& backend, Progress& progress);

}  // namespace neuronmm::finetune
