#pragma once
// Runs the phases of a fine-tuning step by step. It continues where an interrupted run stopped, and
// keeps the best state on a validation text. `finetune` is its only caller. It fails on interrupts
// (after saving), on a loss or gradient that is NaN or infinite, and on files that cannot be
// written.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "finetune/dataset.h"
#include "finetune/finetune.h"
#include "finetune/trainable_model.h"
#include "finetune/training_folder.h"

namespace neuronmm::finetune {

// Returns the tasks of a fine-tuning on this number of sequences and their shares of the time, in
// sequences, for one estimate of the whole command. The last one is the writing of the model.
std::vector<ExpectedTask> expected_tasks(const Recipe& recipe, int64_t examples);

// The fine-tuning of a model, from its saved position to the end of the last phase.
class Training {
 public:
  // `validation` may be empty. All arguments must outlive this object.
  Training(const Recipe& recipe, const Dataset& data, const Dataset& validation,
           TrainableModel& model, TrainingFolder& folder, Progress& progress,
           const OnStep& on_step);

  Status run();
  std::vector<PhaseSummary> summary() const;

 private:
  using Clock = std::chrono::steady_clock;

  Part part() const { return phases_[static_cast<size_t>(position_.phase)]; }
  std::string label() const;
  int64_t examples() const { return static_cast<int64_t>(data_.examples.size()); }
  int64_t steps_per_epoch() const { return (examples() + recipe_.batch - 1) / recipe_.batch; }
  int64_t total_steps() const;  // steps of a phase if no validation ends it
  int64_t epoch() const { return position_.step / steps_per_epoch(); }
  int64_t sequences_in(int64_t steps) const;  // the sequences that this many steps of a phase see

  Status run_phase();
  Status train_phase();
  std::vector<const Example*> batch_of(int64_t step) const;
  Status run_step();
  void record(const EpochLoss& loss);
  void show(size_t first, Batch sequences);

  bool validates() const { return !validation_.examples.empty(); }
  Status validate();
  bool out_of_patience() const;
  void restore_best();

  Status run_blocks();
  Status finish_phase();
  Status save();
  Error stop();
  Error diverged(const char* what) const;

  const Recipe& recipe_;
  const std::vector<Part> phases_;
  const Dataset& data_;
  const Dataset& validation_;
  TrainableModel& model_;
  TrainingFolder& folder_;
  Progress& progress_;
  const OnStep& on_step_;
  Position position_;
  Clock::time_point started_, saved_;
  int64_t tokens_ = 0;  // the tokens of this phase in this run
  std::optional<double> last_loss_;
};

}  // namespace neuronmm::finetune
