#pragma once
// The recipe of a training: what is trained, on how much text, and at which learning rate. The
// defaults are those of docs/measurements/finetune.md.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace neuronmm::finetune {

struct Recipe {
  // The rank of LoRA adapters, which are then trained and written. 0: the matrices, norms and
  // biases of all layers are trained.
  int64_t lora_rank = 0;
  // The largest learning rate. 0: the one that a trial on the first steps finds (trial_rates).
  double learning_rate = 0.0;
  // The tokens to train on. More than the text has are passes over it, and 0 is one pass.
  int64_t tokens = 0;
  int64_t batch = 4;           // the sequences of a step
  int64_t cutoff = 512;        // the largest number of tokens of a sequence
  uint64_t seed = 0;           // of adapters, the order of the text, and what the teacher writes
  int64_t self_generated = 0;  // the number of tokens that the teacher writes
};

// PEFT's usual choice, alpha = 2 · rank: an adapter adds this times B·A.
inline constexpr double kAdapterScale = 2.0;

// Returns the learning rate of step `step`, where 0 <= step < steps. The rate rises linearly over
// the first tenth, at most 100 steps, and then falls linearly, so that it would be 0 after the last
// step.
double learning_rate_at(double largest, int64_t step, int64_t steps);

// Returns the three rates that a trial begins with: a third of the usual one, that one, and three
// times it. Adapters need a higher rate (arXiv 2106.09685).
std::vector<double> trial_rates(const Recipe& recipe);

// Returns a random order of `count` elements, which is a function of seed and epoch, so that a
// resumed run needs no saved order.
std::vector<size_t> shuffled(size_t count, uint64_t seed, int64_t epoch);

}  // namespace neuronmm::finetune
