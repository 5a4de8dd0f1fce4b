#pragma once
// Fine-tunes the factors of a compressed model folder and writes a new folder with the same tensors
// of the same shapes: ranks, size and speed stay as they were.

#include <filesystem>
#include <functional>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "finetune/recipe.h"

namespace neuronmm::finetune {

struct FinetuneRequest {
  std::filesystem::path model, out, data;
  std::filesystem::path teacher;  // a dense model to imitate; empty: learn the text itself
  Recipe recipe;
  std::string device = "cpu";
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
  std::vector<double> epoch_losses;  // means over the scored tokens while training
};

struct FinetuneSummary {
  int64_t examples = 0, scored_tokens = 0;  // of one epoch
  std::vector<PhaseSummary> phases;
};

// The state is kept every five minutes and when interrupted; an interrupted and resumed run gives
// the same bytes as an uninterrupted one with as many threads. A loss or gradient that is NaN or
// infinite ends the run with an error; what was kept before stays.
Result<FinetuneSummary> finetune(const FinetuneRequest& request, Progress& progress,
                                 const OnStep& on_step = {});

}  // namespace neuronmm::finetune
