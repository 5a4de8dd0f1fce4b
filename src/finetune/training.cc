#include "finetune/training.h"

#include <algorithm>
#include <cmath>

#include "base/interrupt.h"
#include "base/task_labels.h"
#include "finetune/block_refinement.h"

namespace neuronmm::finetune {
namespace {

// The interval between two saved states, which is what a killed run may lose. Assumed.
constexpr auto kCheckpointInterval = std::chrono::minutes(5);

// Returns the label of a phase.
std::string phase_label(const std::vector<Part>& phases, size_t phase) {
  const std::string_view part = part_name(phases[phase]);
  if (phases.size() == 1) return fmt::format("training {}", part);
  return fmt::format("phase {} of {} ({})", phase + 1, phases.size(), part);
}

int64_t steps_per_epoch_of(const Recipe& recipe, int64_t examples) {
  return (examples + recipe.batch - 1) / recipe.batch;
}

// Returns the steps of a phase if no validation ends it.
int64_t total_steps_of(const Recipe& recipe, int64_t examples) {
  const int64_t all = steps_per_epoch_of(recipe, examples) * recipe.epochs;
  return recipe.steps > 0 ? std::min(all, recipe.steps) : all;
}

}  // namespace

// All layers that are refined, each by itself, take about as long as one pass of the whole model. A
// sequence that the teacher writes is assumed to take as long as one to train on.
std::vector<ExpectedTask> expected_tasks(const Recipe& recipe, int64_t examples) {
  std::vector<ExpectedTask> tasks;
  const int64_t written = recipe.self_generated / std::max<int64_t>(recipe.cutoff, 1);
  if (written > 0) tasks.push_back({task::kWritingText, static_cast<double>(written)});
  const std::vector<Part> phases = recipe.all_phases();
  const double all = static_cast<double>(examples + written);
  for (size_t i = 0; i < phases.size(); ++i) {
    if (phases[i] == Part::kBlocks) {
      const double refined = std::min(
          all, static_cast<double>(recipe.block_tokens) / static_cast<double>(recipe.cutoff));
      tasks.push_back({task::kRefining, refined * static_cast<double>(recipe.block_epochs)});
    } else {
      const auto steps = total_steps_of(recipe, examples + written);
      tasks.push_back(
          {phase_label(phases, i), static_cast<double>(steps) * static_cast<double>(recipe.batch)});
    }
  }
  tasks.push_back({task::kWriting, 0.01 * all});
  return tasks;
}

Training::Training(const Recipe& recipe, const Dataset& data, const Dataset& validation,
                   TrainableModel& model, TrainingFolder& folder, Progress& progress,
                   const OnStep& on_step)
    : recipe_(recipe),
      phases_(recipe.all_phases()),
      data_(data),
      validation_(validation),
      model_(model),
      folder_(folder),
      progress_(progress),
      on_step_(on_step),
      position_(folder.position()) {}

Status Training::run() {
  NMM_TRY(folder_.load_factors(model_));
  if (position_.phase > 0) {
    progress_.print("training: " +
                    found_text(position_.phase, std::ssize(phases_), "phase", "phases"));
  }
  while (position_.phase < std::ssize(phases_)) {
    started_ = saved_ = Clock::now();
    const UnsavedWork
        unsaved;  // a step may take long, and saving after each step would take longer
    NMM_TRY(part() == Part::kBlocks ? run_blocks() : run_phase());
    NMM_TRY(finish_phase());
  }
  progress_.finish();
  return {};
}

std::vector<PhaseSummary> Training::summary() const {
  std::vector<PhaseSummary> phases;
  for (size_t i = 0; i < phases_.size(); ++i) {
    PhaseSummary& phase = phases.emplace_back();
    phase.part = phases_[i];
    phase.steps = position_.steps[i];
    if (phase.part == Part::kBlocks) phase.blocks = position_.blocks;
    for (const EpochLoss& epoch : position_.epochs) {
      if (epoch.phase == static_cast<int64_t>(i)) phase.epoch_losses.push_back(epoch.mean());
    }
    for (const Validation& validation : position_.validations) {
      if (validation.phase == static_cast<int64_t>(i)) phase.validations.push_back(validation);
    }
  }
  return phases;
}

std::string Training::label() const {
  return phase_label(phases_, static_cast<size_t>(position_.phase));
}

int64_t Training::total_steps() const { return total_steps_of(recipe_, examples()); }

int64_t Training::sequences_in(int64_t steps) const {
  return steps / steps_per_epoch() * examples() + steps % steps_per_epoch() * recipe_.batch;
}

// Runs a phase of training from its first step or from the saved position. Its adapters are merged
// at its end, and the next phase starts from the merged factors.
Status Training::run_phase() {
  model_.begin_phase(part(), recipe_, recipe_.seed + static_cast<uint64_t>(position_.phase));
  if (validates()) model_.keep_best();
  NMM_TRY(folder_.load_state(model_));
  progress_.print(fmt::format("{}: {} trainable parameters, {} steps", label(),
                              model_.trainable_parameters(), total_steps()));
  if (position_.step > 0) {
    progress_.print(label() + ": " + found_text(position_.step, total_steps(), "step", "steps"));
  }
  progress_.start(label(), sequences_in(total_steps()), sequences_in(position_.step));
  tokens_ = 0;
  NMM_TRY(train_phase());
  if (validates()) restore_best();
  model_.end_phase();
  return {};
}

Status Training::train_phase() {
  while (true) {
    if (validates()) NMM_TRY(validate());
    if (position_.step >= total_steps() || out_of_patience()) return {};
    NMM_TRY(run_step());
    if (Clock::now() - saved_ > kCheckpointInterval) NMM_TRY(save());
  }
}

// Returns the sequences of one step, sorted by length, so that those of a micro-batch have similar
// lengths and little is padded.
std::vector<const Example*> Training::batch_of(int64_t step) const {
  const std::vector<size_t> order =
      shuffled(data_.examples.size(), recipe_.seed, position_.phase, epoch());
  const int64_t first = step % steps_per_epoch() * recipe_.batch;
  const int64_t last = std::min(examples(), first + recipe_.batch);
  std::vector<const Example*> batch;
  for (int64_t i = first; i < last; ++i)
    batch.push_back(&data_.examples[order[static_cast<size_t>(i)]]);
  std::ranges::stable_sort(batch, std::ranges::greater(), &Example::length);
  return batch;
}

// Makes one update with the gradient of the mean loss over all scored tokens of the batch. The
// gradient is summed over micro-batches that fit into memory.
Status Training::run_step() {
  const std::vector<const Example*> batch = batch_of(position_.step);
  EpochLoss loss = {.phase = position_.phase};
  for (const Example* const example : batch) loss.tokens += example->scored_tokens();
  model_.clear_gradients();
  const auto micro_batch = static_cast<size_t>(recipe_.micro_batch);
  for (size_t first = 0; first < batch.size(); first += micro_batch) {
    if (interrupted()) return stop();
    const Batch sequences =
        Batch(batch).subspan(first, std::min(micro_batch, batch.size() - first));
    loss.sum += model_.accumulate(sequences, 1.0 / static_cast<double>(loss.tokens));
    if (!std::isfinite(loss.sum)) return diverged("loss");
    show(first, sequences);
  }
  // The gradient is checked before the update, because a gradient that is not finite would destroy
  // the weights.
  if (!std::isfinite(model_.gradient_norm())) return diverged("gradient");
  const double learning_rate = learning_rate_at(recipe_, position_.step, total_steps());
  model_.update(learning_rate, position_.step + 1);
  if (on_step_) on_step_({part(), position_.phase, position_.step, loss.mean(), learning_rate});
  record(loss);
  return {};
}

// Adds the loss of a step to that of its epoch. An epoch's loss is the mean over its tokens and not
// over its batches, which have different numbers of tokens.
void Training::record(const EpochLoss& loss) {
  if (position_.step % steps_per_epoch() == 0) position_.epochs.push_back({position_.phase, 0, 0});
  position_.epochs.back().sum += loss.sum;
  position_.epochs.back().tokens += loss.tokens;
  ++position_.step;
  last_loss_ = loss.mean();
}

void Training::show(size_t first, Batch sequences) {
  for (const Example* const example : sequences) tokens_ += example->length();
  const std::chrono::duration<double> elapsed = Clock::now() - started_;
  std::string note = fmt::format("epoch {}, {:.0f} tokens/s", epoch() + 1,
                                 static_cast<double>(tokens_) / elapsed.count());
  if (last_loss_) note += fmt::format(", loss {:.4f}", *last_loss_);
  progress_.update(sequences_in(position_.step) + static_cast<int64_t>(first + sequences.size()),
                   note);
}

// Measures the validation loss before the first step, at the interval of the recipe, and after the
// last step. It keeps the best state so far.
Status Training::validate() {
  const bool due = position_.step % recipe_.validate_every == 0 || position_.step == total_steps();
  std::vector<Validation>& all = position_.validations;
  const bool done =
      !all.empty() && all.back().phase == position_.phase && all.back().step == position_.step;
  if (!due || done) return {};
  EpochLoss loss;
  const std::vector<Example>& examples = validation_.examples;
  const auto micro_batch = static_cast<size_t>(recipe_.micro_batch);
  for (size_t first = 0; first < examples.size(); first += micro_batch) {
    if (interrupted()) return stop();
    std::vector<const Example*> sequences;
    for (size_t i = first; i < std::min(first + micro_batch, examples.size()); ++i) {
      sequences.push_back(&examples[i]);
      loss.tokens += examples[i].scored_tokens();
    }
    loss.sum += model_.loss_sum(sequences);
  }
  if (!std::isfinite(loss.sum)) return diverged("validation loss");
  const std::optional<Validation> best = best_of(all, position_.phase);
  if (!best || loss.mean() < best->loss) model_.keep_best();
  all.push_back({position_.phase, position_.step, loss.mean()});
  progress_.print(fmt::format("step {}: validation loss {:.4f}", position_.step, loss.mean()));
  return {};
}

bool Training::out_of_patience() const {
  const std::vector<Validation>& all = position_.validations;
  const auto best = best_of(all, position_.phase);
  if (recipe_.patience == 0 || !best) return false;
  return std::ranges::count_if(all, [&](const Validation& validation) {
           return validation.phase == position_.phase && validation.step > best->step;
         }) >= recipe_.patience;
}

void Training::restore_best() {
  const auto best = best_of(position_.validations, position_.phase);
  if (best->step == position_.step) return;
  model_.restore_best();
  progress_.print(fmt::format("{} after step {}: the state of step {} is the best, and kept",
                              position_.step < total_steps() ? "stopped early" : "done",
                              position_.step, best->step));
}

Status Training::run_blocks() {
  BlockRefinement refinement(recipe_, data_, validation_, model_, progress_);
  const Status refined = refinement.run(position_, [&]() -> Status {
    if (Clock::now() - saved_ <= kCheckpointInterval) return {};
    saved_ = Clock::now();
    return folder_.save_factors(model_, position_);
  });
  if (refined.ok() || position_.step == 0) return refined;
  NMM_TRY(folder_.save_factors(model_, position_));
  if (refined.error().kind != Error::Kind::kInterrupted) return refined;
  return interrupted_error(fmt::format("{} of {} layers are refined", position_.step,
                                       model_.config().num_hidden_layers));
}

Status Training::finish_phase() {
  position_.steps.push_back(position_.step);
  ++position_.phase;
  position_.step = 0;
  return folder_.save_factors(model_, position_);
}

Status Training::save() {
  NMM_TRY(folder_.save_state(model_, position_));
  saved_ = Clock::now();
  return {};
}

// Saves the state and returns the error of an interrupt. Before the first step is done there is
// nothing to save.
Error Training::stop() {
  if (position_.step > 0) {
    const Status saved = save();
    if (!saved.ok()) return saved.error();
  }
  return interrupted_error(fmt::format("{} of {} steps of phase {} of {} are done", position_.step,
                                       total_steps(), position_.phase + 1, phases_.size()));
}

// Returns an error that names the saved state, which is from before the divergence.
Error Training::diverged(const char* what) const {
  const Position& kept = folder_.position();
  return fail(
      "the {} is NaN or infinite at step {} of phase {}; the state of phase {}, step {} is kept: "
      "resume from it with a learning rate below {}",
      what, position_.step + 1, position_.phase + 1, kept.phase + 1, kept.step,
      recipe_.learning_rate);
}

}  // namespace neuronmm::finetune
