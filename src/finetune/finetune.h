#pragma once
// Fine-tunes the factors of a compressed model folder and writes a new folder with the same tensors
// of the same shapes: ranks, size and speed stay as they were.

#include <filesystem>
#include <functional>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "base/tensor.h"
#include "compress/rounding/quantized_formats.h"
#include "finetune/position.h"
#include "finetune/recipe.h"

namespace neuronmm::ops {
class Backend;
}

namespace neuronmm::finetune {

struct FinetuneRequest {
  std::filesystem::path model, out;
  std::filesystem::path data;        // may be empty where the teacher writes
  std::filesystem::path validation;  // held-out data; 16,384 tokens of it at most; empty: none
  std::filesystem::path teacher;     // a dense model to imitate; empty: learn the text itself
  Recipe recipe;
  std::string device = "cpu";
  DType compute = DType::kF32;  // kBF16: factors of products are rounded to bf16
  // Train what weights of these bits compute, and write them. So are folders trained whose weights
  // have few bits already: their formats and their matrices that are not trained stay as they are,
  // byte for byte, and of 6 and 4 bits the scales and groups of those that are (kept_grid.h). Other
  // bits than they have are refused.
  compress::WeightFormats weights = {};
  const ops::Backend* backend = nullptr;  // that the teacher writes with: recipe.self_generated
  bool resume = false;  // go on from what an interrupted run kept in out + ".partial"
  bool force = false;   // replace an existing output folder, forget an interrupted run
};

struct StepReport {
  Part part = Part::kV;
  int64_t phase = 0, step = 0;  // from 0
  double loss = 0.0;            // mean over the scored tokens, before the update
  double learning_rate = 0.0;
};
using OnStep = std::function<void(const StepReport&)>;

struct PhaseSummary {
  Part part = Part::kV;
  int64_t steps = 0;
  std::vector<double> epoch_losses;     // means over the scored tokens while training
  std::vector<Validation> validations;  // with the phase's number; the best state was kept
  std::vector<BlockError> blocks;       // kBlocks: per decoder layer
};

struct FinetuneSummary {
  int64_t examples = 0, scored_tokens = 0;  // of one epoch
  int64_t generated_tokens = 0;             // of them, those that the teacher wrote
  int64_t validation_tokens = 0;            // scored ones
  std::vector<PhaseSummary> phases;
};

// The state is kept every five minutes and when interrupted; an interrupted and resumed run gives
// the same bytes as an uninterrupted one with as many threads. Text that the teacher wrote is kept,
// too. With a validation text every phase ends with the state that was the best on it. A loss or
// gradient that is NaN or infinite ends the run with an error; what was kept before stays.
Result<FinetuneSummary> finetune(const FinetuneRequest& request, Progress& progress,
                                 const OnStep& on_step = {});

}  // namespace neuronmm::finetune
