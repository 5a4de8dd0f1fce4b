#pragma once
// Runs a fine-tuning step by step: finds a learning rate, continues where an interrupted run
// stopped, and keeps the best state on the held-out text. `finetune` is its only caller. It fails
// on interrupts (after saving), on files that cannot be written, and if no gradient is finite.

#include <chrono>
#include <optional>
#include <vector>

#include "base/progress.h"
#include "finetune/dataset.h"
#include "finetune/finetune.h"
#include "finetune/student.h"
#include "finetune/training_folder.h"

namespace neuronmm::finetune {

// Returns the tasks of a fine-tuning on this number of tokens and their shares of the time, in
// tokens, for one estimate of the whole command. The last one is the writing of the model.
std::vector<ExpectedTask> expected_tasks(const Recipe& recipe, int64_t tokens);

// The fine-tuning of a model, from its saved position to the end.
class Training {
 public:
  // All arguments must outlive this object.
  Training(const FinetuneRequest& request, const Dataset& data, const Dataset& held_out,
           Student& student, TrainingFolder& folder, Progress& progress, const OnStep& on_step);

  Status run();
  const Position& position() const { return position_; }
  int64_t steps() const { return steps_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Batch = std::vector<const Example*>;
  struct Loss {
    double sum = 0.0;
    int64_t tokens = 0;
    double mean() const { return sum / static_cast<double>(tokens); }
  };

  int64_t examples() const { return std::ssize(data_.examples); }
  int64_t steps_per_epoch() const;
  double tokens_per_step() const;          // the mean
  int64_t tokens_in(int64_t steps) const;  // about as many
  Batch batch_of(int64_t step) const;

  void resume();
  Status begin();
  Status find_rate();
  void choose_rate();
  Result<double> try_rate(double rate, int64_t steps);
  Status train();
  Result<Loss> accumulate(int64_t step);
  Status run_step();
  std::optional<Loss> loss_as_written();
  Result<double> held_out_loss();
  Status measure();
  void show(int64_t step, int64_t tokens);
  void restore_best();
  Status save();
  Error stop();

  const Recipe& recipe_;
  const Dataset& data_;
  Student& student_;
  TrainingFolder& folder_;
  Progress& progress_;
  const OnStep& on_step_;
  const std::chrono::milliseconds save_every_;
  const char* const loss_name_;
  Position position_;
  double mean_length_ = 0.0;
  int64_t steps_ = 0;
  bool ended_ = false;  // by gradients or losses that are not finite
  // The held-out text, and what the teacher makes of it.
  std::vector<training::TrainingBatch> held_out_;
  std::vector<training::Rows<float>> teacher_states_;
  Clock::time_point started_, saved_;
  int64_t tokens_ = 0;  // of the current task in this run
};

}  // namespace neuronmm::finetune
