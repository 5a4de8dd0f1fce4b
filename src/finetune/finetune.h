#pragma once
// The command `finetune`: trains a model folder and writes a new one, or a LoRA adapter. A new
// folder has the same tensors of the same shapes, so that sizes and speed stay as they were. It
// fails on models, teachers, texts or output folders that do not fit, on interrupts, and if no
// gradient is finite.

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>

#include "base/progress.h"
#include "base/result.h"
#include "compress/rounding/quantized_formats.h"
#include "finetune/position.h"
#include "finetune/recipe.h"
#include "io/folder_writer.h"
#include "training/products.h"

namespace neuronmm::ops {
class Backend;
}

namespace neuronmm::finetune {

// Everything that one fine-tuning needs: its files, its recipe and how it computes.
struct FinetuneRequest {
  std::filesystem::path model, out;
  // The training text. May be empty if the teacher writes the training text.
  std::filesystem::path data;
  // Held-out text, of which at most 16,384 tokens are used. Empty: a part of the training text.
  std::filesystem::path validation;
  // The model before compression, whose predictions the trained model imitates. Empty: it learns
  // the text itself.
  std::filesystem::path teacher;
  Recipe recipe;
  // The type that what is multiplied is rounded to.
  training::Precision precision = training::fastest_precision();
  // Trains what a folder with weights of these bits would compute, and writes such a folder. A
  // folder whose weights have few bits already is trained this way, too, and then other bits than
  // its own are refused. Its formats and the matrices that are not trained stay as they are, byte
  // for byte. In 6 and 4 bits the scales and groups of the trained matrices stay as well
  // (kept_grid.h).
  compress::WeightFormats weights = {};
  // The backend that the teacher writes with. Needed for recipe.self_generated only.
  const ops::Backend* backend = nullptr;
  // Continue from what an interrupted run kept in out + ".partial".
  bool resume = false;
  // Replace an existing output folder and discard an interrupted run.
  bool force = false;
  // The time between two saved states, which is what a killed run may lose. Assumed.
  std::chrono::milliseconds save_every = std::chrono::minutes(5);
};

// The measurements of one training step.
struct StepReport {
  int64_t step = 0;   // the number of steps that are done
  double loss = 0.0;  // the mean over the scored tokens before the update
  double learning_rate = 0.0;
};
using OnStep = std::function<void(const StepReport&)>;

// The data that a fine-tuning used, and what it measured.
struct FinetuneSummary {
  int64_t examples = 0, scored_tokens = 0;  // of one pass over the text
  int64_t generated_tokens = 0;             // of those, what the teacher wrote
  int64_t held_out_tokens = 0;              // scored ones
  int64_t trained_parameters = 0;
  int64_t planned_steps = 0;
  Position position;
};

// Trains the model of `request` and writes the output folder, with the state that was the best on
// the held-out text. The state is saved every few minutes and on an interrupt. A resumed run gives
// the same bytes as an undisturbed one, also after a kill. A step whose gradient is NaN or infinite
// is skipped, and three in a row end the training.
Result<FinetuneSummary> finetune(const FinetuneRequest& request, Progress& progress,
                                 const OnStep& on_step = {},
                                 const io::BeforeOutput<FinetuneSummary>& before_output = {});

}  // namespace neuronmm::finetune
