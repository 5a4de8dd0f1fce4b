#pragma once
// The recipe of a fine-tuning: what each phase trains, for how long and at which learning rate. The
// defaults are those of SVD-LLM's published recipe (arXiv 2403.07378 and its repository's LoRA
// script), without its dropout.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace neuronmm::finetune {

// The parameters that one phase trains.
// - kU and kV train adapters on one factor of every compressed matrix: kU on the factor that is
//   applied first (X_v_proj in checkpoints), kV on the one that is applied second (X_u_proj). With
//   pivots of the input the first factor is their map and the second is the matrix. With pivots of
//   the output the first is the matrix and the second is their map. In an MLP of fewer neurons gate
//   and up are the first factors, and down is the second.
// - kBoth trains adapters on both factors.
// - kFactors trains the factors themselves.
// - kAll trains all matrices of the decoder layers, including attention and what compression left
//   dense.
// - kBlocks trains one decoder layer after the other, each by itself, until it does what the
//   teacher's layer does. It trains the factors, or in a recipe with kAll all matrices of the
//   layer.
enum class Part { kU, kV, kBoth, kFactors, kAll, kBlocks };
// Returns "u", "v", "both", "factors", "all" or "blocks".
std::string_view part_name(Part part);
// Reads a comma-separated list of part names in the order of training, for example "v,u". All names
// except "blocks" are allowed.
Result<std::vector<Part>> parse_parts(std::string_view names);

// All settings of a training run. Training, TrainableModel and BlockRefinement read them.
struct Recipe {
  std::vector<Part> phases = {Part::kV, Part::kU};
  int64_t rank = 8;             // the rank of the adapters
  double alpha = 16;            // an adapter adds alpha / rank · B·A
  double learning_rate = 1e-4;  // the largest learning rate
  int64_t epochs = 2;           // the epochs of every phase
  // The largest number of steps of a phase, from which the learning rate is computed, too. 0: all
  // epochs.
  int64_t steps = 0;
  int64_t batch = 64;  // the sequences in one step
  // Sequences that are computed together. Changes memory and speed only.
  int64_t micro_batch = 4;
  int64_t warmup = 100;  // in steps, at most a tenth of a phase
  int64_t cutoff = 256;  // the largest number of tokens in a sequence
  uint64_t seed = 0;
  // The epochs of block refinement, which comes before the phases. 0: no block refinement.
  int64_t block_epochs = 0;
  // The largest number of training tokens for block refinement. Both models' hidden states of these
  // tokens are in memory: 1 GB for the default at a hidden_size of 2048.
  int64_t block_tokens = 1 << 16;
  // The largest learning rate of block refinement. Measured for 1e-4 and 1e-3: a single layer stays
  // stable at a higher rate than a whole model and has few steps (docs/measurements/finetune.md).
  double block_learning_rate = 1e-3;
  int64_t validate_every = 50;  // in steps, if there is a validation text
  // A phase ends after this many validations without a new best. 0: never.
  int64_t patience = 0;
  int64_t self_generated = 0;  // the number of tokens that the teacher writes

  // Returns the phases in the order in which they run, with kBlocks first if there are
  // block_epochs.
  std::vector<Part> all_phases() const;
  // Returns whether matrices that are no factors are trained, too.
  bool trains_all() const;
};

// Returns the learning rate of step `step`, where 0 <= step < total_steps. The rate rises linearly
// over the warm-up and then falls linearly, so that it would be 0 after the last of total_steps
// steps.
double learning_rate_at(const Recipe& recipe, int64_t step, int64_t total_steps);
// Returns the same for block refinement, which has a largest rate of its own.
double block_learning_rate_at(const Recipe& recipe, int64_t step, int64_t total_steps);

}  // namespace neuronmm::finetune
