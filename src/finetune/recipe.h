#pragma once
// How a fine-tuning goes: what each phase trains, for how long and how fast. The defaults are those
// of SVD-LLM's published recipe (arXiv 2403.07378 and its repository's LoRA script), without its
// dropout.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace neuronmm::finetune {

// What one phase trains. kU and kV: adapters on that factor of every compressed matrix, the one
// that is applied first or second: X_v_proj and X_u_proj in checkpoints; with pivots of the input
// their map and then the matrix, with pivots of the output the matrix and then their map; in an MLP
// of fewer neurons gate and up, then down. kBoth: adapters on both. kFactors: the factors
// themselves. kAll: all matrices of the decoder layers, attention and what compression left dense
// among them.
// kBlocks: the factors of one decoder layer after the other, each by itself, until the layer does
// what the teacher's does; in a recipe with kAll all matrices of the layer.
enum class Part { kU, kV, kBoth, kFactors, kAll, kBlocks };
std::string_view part_name(Part part);  // "u", "v", "both", "factors", "all", "blocks"
// A comma-separated list of all but blocks, in the order of training: "v,u".
Result<std::vector<Part>> parse_parts(std::string_view names);

struct Recipe {
  std::vector<Part> phases = {Part::kV, Part::kU};
  int64_t rank = 8;             // of the adapters
  double alpha = 16;            // an adapter adds alpha / rank · B·A
  double learning_rate = 1e-4;  // the largest
  int64_t epochs = 2;           // of every phase
  int64_t steps = 0;            // of every phase at most, also for the learning rate; 0: all epochs
  int64_t batch = 64;           // sequences of a step
  int64_t micro_batch = 4;      // sequences computed together; changes memory and speed only
  int64_t warmup = 100;         // steps; at most a tenth of a phase's steps
  int64_t cutoff = 256;         // tokens of a sequence
  uint64_t seed = 0;
  int64_t block_epochs = 0;  // of each decoder layer by itself, before the phases
  // Of the training text for that, at most. Both models' hidden states of them are in memory: of
  // these 1 GB at a hidden_size of 2048.
  int64_t block_tokens = 1 << 16;
  // The largest there. Measured for 1e-4 and 1e-3: a layer alone bears more than a model, and has
  // few steps.
  double block_learning_rate = 1e-3;
  int64_t validate_every = 50;  // steps, where there is a validation text
  int64_t patience = 0;         // validations without a new best that end a phase; 0: never
  int64_t self_generated = 0;   // tokens that the teacher writes

  // The phases as they come, kBlocks among them.
  std::vector<Part> all_phases() const;
  // Whether other matrices than factors change.
  bool trains_all() const;
};

// Rises linearly over the warm-up, then falls linearly to 0 after the last of total_steps steps.
// 0 <= step < total_steps.
double learning_rate_at(const Recipe& recipe, int64_t step, int64_t total_steps);
double block_learning_rate_at(const Recipe& recipe, int64_t step, int64_t total_steps);

}  // namespace neuronmm::finetune
