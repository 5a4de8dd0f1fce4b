#pragma once
// The command `finetune`: trains the factors of a compressed model folder and writes a new folder.
// The new folder has the same tensors of the same shapes, so that ranks, size and speed stay as
// they were. Called by the command line and by the Python bindings. It fails on models, teachers,
// texts or output folders that do not fit, on interrupts, and when training diverges.

#include <filesystem>
#include <functional>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "base/tensor.h"
#include "compress/rounding/quantized_formats.h"
#include "finetune/position.h"
#include "finetune/recipe.h"
#include "io/folder_writer.h"

namespace neuronmm::ops {
class Backend;
}

namespace neuronmm::finetune {

// Everything that one fine-tuning needs: its files, its recipe and how it computes.
struct FinetuneRequest {
  std::filesystem::path model, out;
  // The training text. May be empty if the teacher writes the training text.
  std::filesystem::path data;
  // Held-out text, of which at most 16,384 tokens are used. Empty: no validation.
  std::filesystem::path validation;
  // A dense model whose predictions the trained model imitates. Empty: it learns the text itself.
  std::filesystem::path teacher;
  Recipe recipe;
  std::string device = "cpu";
  // The dtype of products. With kBF16 the factors of every product are rounded to bf16.
  DType compute = DType::kF32;
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
};

// The measurements of one training step.
struct StepReport {
  Part part = Part::kV;
  int64_t phase = 0, step = 0;  // both count from 0
  double loss = 0.0;            // the mean over the scored tokens before the update
  double learning_rate = 0.0;
};
using OnStep = std::function<void(const StepReport&)>;

// The measurements of one phase.
struct PhaseSummary {
  Part part = Part::kV;
  int64_t steps = 0;
  // The mean loss over the scored tokens of each epoch, measured while training.
  std::vector<double> epoch_losses;
  // The validations of this phase. Training ends with the state that was the best of them.
  std::vector<Validation> validations;
  // Only for kBlocks: the errors of each decoder layer.
  std::vector<BlockError> blocks;
};

// The data that a fine-tuning used, and the measurements of its phases.
struct FinetuneSummary {
  int64_t examples = 0, scored_tokens = 0;  // of one epoch
  // The number of those tokens that the teacher wrote.
  int64_t generated_tokens = 0;
  int64_t validation_tokens = 0;  // the scored tokens of the validation text
  std::vector<PhaseSummary> phases;
};

// Trains the model of `request` and writes the output folder. The state is saved every five minutes
// and on an interrupt. A resumed run gives the same bytes as an uninterrupted run with as many
// threads. Text that the teacher wrote is kept, too. With a validation text every phase ends with
// the state that was the best on it. A loss or gradient that is NaN or infinite ends the run with
// an error, and the last saved state stays.
Result<FinetuneSummary> finetune(const FinetuneRequest& request, Progress& progress,
                                 const OnStep& on_step = {},
                                 const io::BeforeOutput<FinetuneSummary>& before_output = {});

}  // namespace neuronmm::finetune
