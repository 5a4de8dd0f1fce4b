#include "finetune/training.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/interrupt.h"
#include "base/task_labels.h"
#include "finetune/memory_need.h"

namespace neuronmm::finetune {
namespace {

constexpr const char* kTrying = "trying learning rates";
constexpr const char* kTraining = "training";
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// A run measures the held-out loss about as often. Assumed: ten measurements take less than a tenth
// of the time.
constexpr int64_t kMeasurements = 10;
// A trial of one rate takes a twentieth of the run, but at most 32,768 tokens, and at least some
// steps of a short run. Assumed.
constexpr int64_t kTrialShare = 20, kTrialTokens = 32768, kTrialSteps = 8;
// If the best rate is the largest or the smallest one, rates beyond it are tried, so many at most.
constexpr int kMoreTrials = 2;
constexpr int64_t kMostSkipped = 3;  // gradients in a row that are not finite

training::TrainingBatch batch_of_examples(std::span<const Example* const> examples) {
  training::TrainingBatch batch;
  for (const Example* const example : examples) {
    batch.sequences.push_back(example->tokens);
    batch.first_scored.push_back(example->scored_from);
  }
  return batch;
}

// Divides sequences into parts of about kTokensTogether tokens.
std::vector<training::TrainingBatch> parts_of(std::span<const Example* const> examples) {
  std::vector<training::TrainingBatch> parts;
  for (size_t first = 0; first < examples.size();) {
    size_t count = 0;
    int64_t tokens = 0;
    while (first + count < examples.size()) {
      const int64_t length = examples[first + count]->length();
      if (count > 0 && tokens + length > kTokensTogether) break;
      tokens += length;
      ++count;
    }
    parts.push_back(batch_of_examples(examples.subspan(first, count)));
    first += count;
  }
  return parts;
}

int64_t trial_steps(int64_t steps, double tokens_per_step) {
  const auto most = std::max<int64_t>(
      1, static_cast<int64_t>(static_cast<double>(kTrialTokens) / tokens_per_step));
  return std::min(std::clamp(steps / kTrialShare, std::min(kTrialSteps, steps), steps), most);
}

}  // namespace

std::vector<ExpectedTask> expected_tasks(const Recipe& recipe, int64_t tokens) {
  std::vector<ExpectedTask> tasks;
  const auto count = static_cast<double>(recipe.tokens > 0 ? recipe.tokens : tokens);
  if (recipe.self_generated > 0) {
    tasks.push_back({task::kWritingText, static_cast<double>(recipe.self_generated)});
  }
  if (recipe.learning_rate == 0.0) {
    tasks.push_back({kTrying, 3 * std::min<double>(kTrialTokens, count / kTrialShare)});
  }
  tasks.push_back({kTraining, count});
  tasks.push_back({task::kWriting, 0.01 * count});
  return tasks;
}

Training::Training(const FinetuneRequest& request, const Dataset& data, const Dataset& held_out,
                   Student& student, TrainingFolder& folder, Progress& progress,
                   const OnStep& on_step)
    : recipe_(request.recipe),
      data_(data),
      student_(student),
      folder_(folder),
      progress_(progress),
      on_step_(on_step),
      save_every_(request.save_every),
      loss_name_(request.teacher.empty() ? "loss" : "divergence"),
      position_(folder.position()) {
  int64_t tokens = 0;
  for (const Example& example : data.examples) tokens += example.length();
  mean_length_ = static_cast<double>(tokens) / static_cast<double>(examples());
  steps_ = recipe_.tokens == 0
               ? steps_per_epoch()
               : std::max<int64_t>(
                     1, std::llround(static_cast<double>(recipe_.tokens) / tokens_per_step()));
  Batch sequences;
  for (const Example& example : held_out.examples) sequences.push_back(&example);
  held_out_ = parts_of(sequences);
}

int64_t Training::steps_per_epoch() const {
  return (examples() + recipe_.batch - 1) / recipe_.batch;
}

// A step has at most one pass over the text, however large a batch is asked for.
double Training::tokens_per_step() const {
  return mean_length_ * static_cast<double>(std::min(recipe_.batch, examples()));
}

int64_t Training::tokens_in(int64_t steps) const {
  return std::llround(tokens_per_step() * static_cast<double>(steps));
}

Status Training::run() {
  student_.optimizer().keep_best();
  NMM_TRY(folder_.load(student_.optimizer()));
  progress_.print(fmt::format("{} trained parameters, {} steps of about {} tokens",
                              student_.optimizer().trained_parameters(), steps_, tokens_in(1)));
  if (position_.step == 0) NMM_TRY(begin());
  if (position_.step > 0) {
    progress_.print(std::string(kTraining) + ": " +
                    found_text(position_.step, steps_, "step", "steps"));
    resume();
  }
  NMM_TRY(train());
  restore_best();
  progress_.finish();
  return {};
}

// A run that was interrupted at its end, after gradients that were not finite, has ended. With
// another learning rate it goes on.
void Training::resume() {
  if (recipe_.learning_rate > 0.0 && recipe_.learning_rate != position_.learning_rate) {
    position_.learning_rate = recipe_.learning_rate;
    position_.skipped_in_row = 0;
  }
  ended_ = position_.skipped_in_row >= kMostSkipped;
}

Status Training::begin() {
  position_ = {};
  NMM_ASSIGN(const double loss, held_out_loss());
  if (!std::isfinite(loss)) {
    return fail("the held-out {} is NaN or infinite before the first step: expected finite weights",
                loss_name_);
  }
  position_.measurements.push_back({0, loss, 0.0});
  progress_.print(fmt::format("before training: held-out {} {:.4f}", loss_name_, loss));
  position_.learning_rate = recipe_.learning_rate;
  return recipe_.learning_rate > 0.0 ? Status() : find_rate();
}

Status Training::find_rate() {
  const int64_t steps = trial_steps(steps_, tokens_per_step());
  std::vector<double> rates = trial_rates(recipe_);
  progress_.start(kTrying, (std::ssize(rates) + kMoreTrials) * tokens_in(steps));
  started_ = Clock::now();
  tokens_ = 0;
  std::vector<RateTrial>& trials = position_.trials;
  for (size_t i = 0; i < rates.size(); ++i) {
    NMM_ASSIGN(const double loss, try_rate(rates[i], steps));
    trials.push_back({rates[i], loss});
    progress_.print(fmt::format("learning rate {:.2g}: held-out {} {:.4f} after {} steps", rates[i],
                                loss_name_, loss, steps));
    if (i + 1 < rates.size() || trials.size() >= 3 + kMoreTrials) continue;
    const auto [low, high] = std::ranges::minmax_element(trials, {}, &RateTrial::learning_rate);
    const double best = std::ranges::min_element(trials, {}, &RateTrial::loss)->learning_rate;
    if (best == high->learning_rate) rates.push_back(best * 3);
    if (best == low->learning_rate) rates.push_back(best / 3);
  }
  progress_.finish();
  choose_rate();
  return {};
}

// Takes the rate of the best trial, or the smallest one if every trial diverged.
void Training::choose_rate() {
  const std::vector<RateTrial>& trials = position_.trials;
  auto chosen = std::ranges::min_element(trials, {}, &RateTrial::loss);
  const bool diverged = !std::isfinite(chosen->loss);
  if (diverged) chosen = std::ranges::min_element(trials, {}, &RateTrial::learning_rate);
  position_.learning_rate = chosen->learning_rate;
  progress_.print(
      fmt::format("learning rate {:.2g}, {} (--learning-rate sets it)", chosen->learning_rate,
                  diverged ? "the smallest, because every trial diverged" : "which was the best"));
}

// Returns the held-out loss after a short run with this rate, and goes back to the beginning.
Result<double> Training::try_rate(double rate, int64_t steps) {
  training::Optimizer<float>& optimizer = student_.optimizer();
  bool finite = true;
  for (int64_t step = 0; step < steps && finite; ++step) {
    NMM_ASSIGN(const Loss loss, accumulate(step));
    finite = std::isfinite(loss.sum) && optimizer.update(learning_rate_at(rate, step, steps));
  }
  double loss = kInfinite;
  if (finite) {
    NMM_ASSIGN(loss, held_out_loss());
  }
  optimizer.restore_best();
  optimizer.reset();
  return std::isfinite(loss) ? loss : kInfinite;
}

Status Training::train() {
  const UnsavedWork unsaved;  // a step may take long, and saving after each step would take longer
  progress_.start(kTraining, tokens_in(steps_), tokens_in(position_.step));
  started_ = saved_ = Clock::now();
  tokens_ = 0;
  while (true) {
    NMM_TRY(measure());
    if (ended_ || position_.step >= steps_) return {};
    NMM_TRY(run_step());
    if (!ended_ && Clock::now() - saved_ > save_every_) NMM_TRY(save());
  }
}

// Returns the sequences of one step, sorted by length, so that those that are computed together
// have similar lengths.
Training::Batch Training::batch_of(int64_t step) const {
  const std::vector<size_t> order =
      shuffled(data_.examples.size(), recipe_.seed, step / steps_per_epoch());
  const int64_t first = step % steps_per_epoch() * recipe_.batch;
  const int64_t last = std::min(examples(), first + recipe_.batch);
  Batch batch;
  for (int64_t i = first; i < last; ++i) {
    batch.push_back(&data_.examples[order[static_cast<size_t>(i)]]);
  }
  std::ranges::stable_sort(batch, std::ranges::greater(), &Example::length);
  return batch;
}

// Computes the gradient of the mean loss over all scored tokens of a step, summed over parts that
// fit into memory.
Result<Training::Loss> Training::accumulate(int64_t step) {
  const std::vector<training::TrainingBatch> parts = parts_of(batch_of(step));
  Loss loss;
  for (const training::TrainingBatch& part : parts) loss.tokens += part.scored_tokens();
  student_.optimizer().clear_gradients();
  for (const training::TrainingBatch& part : parts) {
    if (interrupted()) return stop();
    loss.sum += student_.training().accumulate(part, 1.0 / static_cast<double>(loss.tokens));
    int64_t tokens = 0;
    for (const auto& sequence : part.sequences) tokens += std::ssize(sequence);
    show(step, tokens);
  }
  return loss;
}

// Makes one update. A gradient that is NaN or infinite changes nothing.
Status Training::run_step() {
  NMM_ASSIGN(const Loss loss, accumulate(position_.step));
  const double rate = learning_rate_at(position_.learning_rate, position_.step, steps_);
  const bool updated = std::isfinite(loss.sum) && student_.optimizer().update(rate);
  ++position_.step;
  if (updated) {
    ++position_.updates;
    position_.skipped_in_row = 0;
    position_.loss_sum += loss.sum;
    position_.loss_tokens += loss.tokens;
  } else {
    ++position_.skipped;
    ++position_.skipped_in_row;
    progress_.print(
        fmt::format("step {}: skipped, because its gradient is NaN or infinite", position_.step));
  }
  if (on_step_) on_step_({position_.step, loss.mean(), rate});
  if (position_.skipped_in_row < kMostSkipped) return {};
  if (position_.updates == 0) {
    return fail(
        "the gradients of the first {} steps are NaN or infinite; expected a model and "
        "texts with finite losses",
        kMostSkipped);
  }
  progress_.print(
      fmt::format("{} gradients in a row are NaN or infinite: training ends here", kMostSkipped));
  ended_ = true;
  return {};
}

// Returns the sum of the held-out losses of the model as it would be written, so that a folder has
// the loss by which its state was chosen. Returns nothing after an interrupt.
std::optional<Training::Loss> Training::loss_as_written() {
  Loss loss;
  const training::WrittenValues<float> written = student_.as_written();
  training::ModelTraining<float>& training = student_.training();
  for (size_t i = 0; i < held_out_.size(); ++i) {
    if (interrupted()) return std::nullopt;
    const training::Rows<float>* states = nullptr;
    if (training.has_teacher()) {
      if (teacher_states_.size() <= i)
        teacher_states_.push_back(training.teacher_states(held_out_[i]));
      states = &teacher_states_[i];
    }
    loss.sum += training.loss(held_out_[i], states);
    loss.tokens += held_out_[i].scored_tokens();
  }
  return loss;
}

// The state is saved only after loss_as_written() has restored the values that it had rounded.
Result<double> Training::held_out_loss() {
  const std::optional<Loss> loss = loss_as_written();
  if (!loss) return stop();
  return loss->mean();
}

// Measures the held-out loss before the first step, at intervals, and at the end. It keeps the best
// state so far.
Status Training::measure() {
  const int64_t interval = std::max<int64_t>(1, (steps_ + kMeasurements - 1) / kMeasurements);
  std::vector<Measurement>& all = position_.measurements;
  const bool due = ended_ || position_.step % interval == 0 || position_.step == steps_;
  if (!due || all.back().step == position_.step) return {};
  NMM_ASSIGN(const double loss, held_out_loss());
  if (!std::isfinite(loss)) {
    progress_.print(fmt::format("step {}: the held-out {} is NaN or infinite: training ends here",
                                position_.step, loss_name_));
    ended_ = true;
    return {};
  }
  if (loss < best_of(all).held_out) student_.optimizer().keep_best();
  const auto tokens = static_cast<double>(std::max<int64_t>(position_.loss_tokens, 1));
  all.push_back({position_.step, loss, position_.loss_sum / tokens});
  position_.loss_sum = 0.0;
  position_.loss_tokens = 0;
  progress_.print(fmt::format("step {}: held-out {} {:.4f}, {:.4f} while training", position_.step,
                              loss_name_, loss, all.back().training));
  return {};
}

void Training::show(int64_t step, int64_t tokens) {
  tokens_ += tokens;
  const std::chrono::duration<double> elapsed = Clock::now() - started_;
  // Trials come before there is a rate.
  const int64_t done = position_.learning_rate > 0.0 ? tokens_in(step + 1) : tokens_;
  progress_.update(done, fmt::format("{} tokens, {:.0f} tokens/s, held-out {} {:.4f}", done,
                                     static_cast<double>(tokens_) / elapsed.count(), loss_name_,
                                     position_.measurements.back().held_out));
}

void Training::restore_best() {
  const Measurement& best = best_of(position_.measurements);
  if (best.step == position_.step) return;
  student_.optimizer().restore_best();
  progress_.print(
      fmt::format("the state of step {} of {} is the best on the held-out text, and kept",
                  best.step, position_.step));
}

Status Training::save() {
  NMM_TRY(folder_.save(student_.optimizer(), position_));
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
  return interrupted_error(fmt::format("{} of {} steps are done", position_.step, steps_));
}

}  // namespace neuronmm::finetune
