#pragma once
// Estimates the memory of a fine-tuning before it loads anything, so that a model that does not fit
// is refused at once, with what would fit.

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "finetune/recipe.h"
#include "io/model_config.h"
#include "training/products.h"

namespace neuronmm::finetune {

// The sequences of a step are computed in parts of about this many tokens, so that a step of any
// size takes the same memory. Assumed: products of fewer tokens would be slower.
inline constexpr int64_t kTokensTogether = 2048;

// The rank of the adapters that a run is advised to train if it does not fit. Assumed: many recipes
// for LoRA begin with it.
inline constexpr int64_t kSmallRank = 8;

// A run as far as its memory is concerned. Parameters are counted in elements.
struct MemoryCase {
  io::ModelConfig config;
  int64_t layer_parameters = 0, teacher_parameters = 0;  // without tables
  int64_t adapter_parameters = 0;                        // 0: layers are trained themselves
  int64_t small_adapter_parameters = 0;                  // of rank kSmallRank; 0: it may have none
  int64_t together = kTokensTogether;                    // tokens computed together
  training::Precision precision = training::Precision::kFp32;
  bool rounded = false;
};

// Bytes of a run: what it always needs, and what all activations of a step would take.
struct MemoryNeed {
  int64_t fixed = 0, activations = 0;
};
MemoryNeed memory_need(const MemoryCase& run);

// Returns the bytes that this process may use: what is free on the machine, or what limits of a
// container or of the process leave.
int64_t usable_memory();

// Returns the activation bytes that a step may keep (ModelTraining). Errors: a run that does not
// fit. The message says what it needs and what would fit.
Result<int64_t> activation_budget(const MemoryCase& run, int64_t usable, const std::string& model);

}  // namespace neuronmm::finetune
