#pragma once
// The held-out text of a fine-tuning: learning rates and states are chosen by the loss on it. It
// must not be trained on.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "finetune/dataset.h"

namespace neuronmm::finetune {

// Returns some sequences of the text, spread over all of it, with about `tokens` tokens and at
// least one sequence.
Dataset spread_sample(Dataset text, int64_t tokens);

// Moves such a sample, but at most an eighth, from the training text into a text of its own.
// Errors: a training text of a single sequence.
Result<Dataset> hold_out(Dataset& training, int64_t tokens, const std::string& source);

// Returns the share of the held-out text that is also trained on: of its runs of 32 scored tokens,
// those that occur in the scored tokens of the training text. Shorter sequences count as a whole.
double share_trained_on(const Dataset& held_out, const Dataset& training);

}  // namespace neuronmm::finetune
