#include "finetune/block_refinement.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "base/interrupt.h"
#include "base/task_labels.h"

namespace neuronmm::finetune {
namespace {

// The number of sequences in one step. A single layer needs no large batches.
constexpr int64_t kBlockBatch = 4;

int64_t tokens_of(const std::vector<const Example*>& examples) {
  int64_t tokens = 0;
  for (const Example* const example : examples) tokens += example->length();
  return tokens;
}

}  // namespace

// Shuffles by Fisher-Yates with the remainder of a 64-bit number, because std::shuffle differs
// between standard libraries. The order is a function of seed, phase and epoch, so that a resumed
// run needs no saved order.
std::vector<size_t> shuffled(size_t count, uint64_t seed, int64_t phase, int64_t epoch) {
  std::seed_seq seeds = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                         static_cast<uint32_t>(phase), static_cast<uint32_t>(epoch)};
  std::mt19937_64 random(seeds);
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = count; i-- > 1;) std::swap(order[i], order[random() % (i + 1)]);
  return order;
}

BlockRefinement::BlockRefinement(const Recipe& recipe, const Dataset& data,
                                 const Dataset& validation, TrainableModel& model,
                                 Progress& progress)
    : recipe_(recipe), model_(model), progress_(progress) {
  int64_t tokens = 0;
  for (const size_t i : shuffled(data.examples.size(), recipe.seed, 0, 0)) {
    const Example& example = data.examples[i];
    if (!trained_.empty() && tokens + example.length() > recipe.block_tokens) break;
    tokens += example.length();
    trained_.push_back(&example);
  }
  for (const Example& example : validation.examples) held_out_.push_back(&example);
}

Status BlockRefinement::run(Position& position, const std::function<Status()>& layer_done) {
  std::vector<const Example*> all = trained_;
  all.insert(all.end(), held_out_.begin(), held_out_.end());
  NMM_TRY(model_.open_blocks(all));
  const int64_t layers = model_.config().num_hidden_layers;
  const int64_t per_layer = recipe_.block_epochs * std::ssize(trained_);
  progress_.print(
      fmt::format("refining {} layers, each by itself, on {} tokens", layers, tokens_of(trained_)));
  if (position.step > 0) {
    progress_.print(std::string(task::kRefining) + ": " +
                    found_text(position.step, layers, "layer", "layers"));
  }
  progress_.start(task::kRefining, layers * per_layer, position.step * per_layer);
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (interrupted()) return interrupted_error("a layer is not kept");
    sequences_done_ = layer * per_layer;
    model_.begin_block();
    if (layer < position.step) {  // An earlier run has refined this layer.
      model_.end_block();
      continue;
    }
    NMM_TRY(refine(position));
    model_.end_block();
    ++position.step;
    NMM_TRY(layer_done());
  }
  model_.close_blocks();
  return {};
}

Status BlockRefinement::refine(Position& position) {
  model_.keep_best();
  NMM_ASSIGN(const double before, error());
  double after = before;
  const bool has_factors = model_.trainable_parameters() > 0;  // false: compression left it dense
  if (has_factors) {
    const Status trained = train();
    if (!trained.ok()) model_.restore_best();
    NMM_TRY(trained);
    auto measured = error();
    if (!measured.ok() || !(*measured < before)) model_.restore_best();
    if (!measured.ok()) return measured.error();
    after = std::min(before, *measured);
  }
  position.blocks.push_back({before, after});
  progress_.print(
      fmt::format("layer {}: relative error {:.3e}, was {:.3e}", position.step, after, before));
  return {};
}

Status BlockRefinement::train() {
  const int64_t per_epoch = (std::ssize(trained_) + kBlockBatch - 1) / kBlockBatch;
  const int64_t total = per_epoch * recipe_.block_epochs;
  for (int64_t index = 0; index < total; ++index) {
    if (interrupted()) return interrupted_error("a layer is not kept");
    NMM_TRY(step(index, total));
  }
  return {};
}

Status BlockRefinement::step(int64_t index, int64_t total) {
  const int64_t per_epoch = total / recipe_.block_epochs;
  const int64_t first = index % per_epoch * kBlockBatch;
  const int64_t count = std::min(kBlockBatch, std::ssize(trained_) - first);
  const auto begin = trained_.begin() + first;
  const int64_t tokens = tokens_of({begin, begin + count});
  model_.clear_gradients();
  const double error = model_.accumulate_block(first, count, 1.0 / static_cast<double>(tokens));
  if (!std::isfinite(error) || !std::isfinite(model_.gradient_norm())) {
    return fail(
        "the error or gradient of a layer is NaN or infinite; a learning rate of layers below {} "
        "may do",
        recipe_.block_learning_rate);
  }
  model_.update(block_learning_rate_at(recipe_, index, total), index + 1);
  progress_.update(sequences_done_ += count,
                   fmt::format("relative error {:.3e}", error / static_cast<double>(tokens)));
  return {};
}

// Returns the mean error per token of the held-out text, or of the training text where nothing is
// held out.
Result<double> BlockRefinement::error() const {
  const bool held_out = !held_out_.empty();
  const std::vector<const Example*>& examples = held_out ? held_out_ : trained_;
  const int64_t offset = held_out ? std::ssize(trained_) : 0;
  double sum = 0.0;
  for (int64_t i = 0; i < std::ssize(examples); ++i) {
    if (interrupted()) return interrupted_error("a layer is not kept");
    sum += model_.block_error(offset + i, 1);
  }
  return sum / static_cast<double>(tokens_of(examples));
}

}  // namespace neuronmm::finetune
