#include "compress/reconstruction/layer_learning.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>

#include "base/interrupt.h"

namespace neuronmm::compress {
namespace {

// The tokens of a step. Measured: a layer learns less from a text in a quarter as many steps of
// 2,048 tokens (docs/measurements/quality.md, "Layer reconstruction").
constexpr int64_t kStepTokens = 512;
// The tokens that pass through a layer together where nothing is learnt. Assumed: products of more
// rows are no faster.
constexpr int64_t kGroupTokens = 2048;
// The largest rate of AdamW for a layer of hidden size kRateWidth, which is that of SmolLM2-135M.
// Measured with a prototype in PyTorch. The best rate of Adam falls with the width of a matrix
// (arXiv 2203.03466).
constexpr double kRate = 5e-4;
constexpr int64_t kRateWidth = 576;
// The share of steps in which the rate rises. Assumed.
constexpr double kWarmUp = 0.05;
// After so many steps in a row whose gradient is not finite, a layer stops.
constexpr int64_t kMostSkipped = 3;

// Returns the numbers below `count` in a random order, which depends on the pass alone.
// std::shuffle differs between standard libraries.
std::vector<size_t> shuffled(size_t count, int64_t pass) {
  std::mt19937_64 random(static_cast<uint64_t>(pass));
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = count; i-- > 1;) std::swap(order[i], order[random() % (i + 1)]);
  return order;
}

int64_t tokens_of(std::span<const Piece> pieces) {
  int64_t tokens = 0;
  for (const Piece& piece : pieces) tokens += piece.length;
  return tokens;
}

// Returns how many pieces have at most `tokens` tokens together, and at least 1.
size_t pieces_within(std::span<const Piece> pieces, int64_t tokens) {
  int64_t longest = 1;
  for (const Piece& piece : pieces) longest = std::max(longest, piece.length);
  return static_cast<size_t>(std::max<int64_t>(1, tokens / longest));
}

class Learning {
 public:
  Learning(TrainingLayer& layer, const LayerText& text, const LearningSettings& settings,
           const std::function<void(double)>& step_done)
      : text_(text),
        settings_(settings),
        step_done_(step_done),
        training_(layer, settings.precision, {}),
        rate_(kRate * static_cast<double>(kRateWidth) / static_cast<double>(settings.width)),
        steps_(settings.passes * steps_per_pass(text.trained)) {}

  // Makes all passes and leaves the layer in the state with the smallest error on the held-out
  // text. After a pass without a gain the layer goes on from its best state, because the rate of
  // the next pass is smaller. Returns whether a state is better than the first one, whose error is
  // `before`.
  Result<bool> run(TrainingLayer& layer, double before, LayerOutcome& outcome) {
    training_.optimizer().keep_best();
    double best = before;
    while (outcome.passes < settings_.passes) {
      NMM_ASSIGN(const bool goes_on, pass(outcome));
      ++outcome.passes;
      NMM_ASSIGN(const double error, mean_error(layer, text_, text_.held_out, settings_.precision));
      if (error < best) {
        best = error;
        training_.optimizer().keep_best();
      } else {  // NaN is no gain either
        training_.optimizer().restore_best();
      }
      if (!goes_on) break;
    }
    return best < before;
  }

 private:
  // Returns false if the layer has to stop.
  Result<bool> pass(LayerOutcome& outcome) {
    const auto order = shuffled(text_.trained.size(), outcome.passes);
    const size_t count = pieces_within(text_.trained, kStepTokens);
    for (size_t first = 0; first < order.size(); first += count) {
      if (interrupted()) return interrupted_error("a layer is not kept");
      std::vector<Piece> pieces;
      for (size_t i = first; i < std::min(first + count, order.size()); ++i) {
        pieces.push_back(text_.trained[order[i]]);
      }
      NMM_ASSIGN(const bool stepped, step(pieces));
      if (!stepped) ++outcome.skipped;
      skipped_in_a_row_ = stepped ? 0 : skipped_in_a_row_ + 1;
      if (skipped_in_a_row_ == kMostSkipped) return false;
    }
    return true;
  }

  // Returns false if the gradient is not finite.
  Result<bool> step(const std::vector<Piece>& pieces) {
    NMM_ASSIGN(const auto inputs, rows_of(text_.inputs, pieces));
    NMM_ASSIGN(const auto targets, rows_of(text_.targets, pieces));
    const auto tokens = static_cast<double>(tokens_of(pieces));
    training_.optimizer().clear_gradients();
    const double error =
        training_.accumulate(inputs.view(), targets.view(), lengths_of(pieces), 1.0 / tokens);
    const double done = static_cast<double>(step_++) / static_cast<double>(steps_);
    const double rise = std::min(1.0, (done + 1.0 / static_cast<double>(steps_)) / kWarmUp);
    const bool stepped = training_.optimizer().update(rate_ * rise * (1.0 - done));
    if (step_done_) step_done_(error / tokens);
    return stepped;
  }

  const LayerText& text_;
  const LearningSettings& settings_;
  const std::function<void(double)>& step_done_;
  training::LayerTraining<float> training_;
  double rate_;
  int64_t steps_, step_ = 0, skipped_in_a_row_ = 0;
};

}  // namespace

int64_t most_tokens_at_once() { return kGroupTokens; }

int64_t steps_per_pass(std::span<const Piece> pieces) {
  const size_t count = pieces_within(pieces, kStepTokens);
  return static_cast<int64_t>((pieces.size() + count - 1) / count);
}

Status for_each_group(std::span<const Piece> pieces,
                      const std::function<Status(std::span<const Piece>)>& body) {
  const size_t count = pieces_within(pieces, kGroupTokens);
  for (size_t first = 0; first < pieces.size(); first += count) {
    if (interrupted()) return interrupted_error("a layer is not kept");
    NMM_TRY(body(pieces.subspan(first, std::min(count, pieces.size() - first))));
  }
  return {};
}

Result<training::Rows<float>> rows_of(const HiddenStates& states, std::span<const Piece> pieces) {
  if (pieces.size() == 1) return states.read(pieces[0].first, pieces[0].length);
  training::Rows<float> all;
  int64_t row = 0;
  for (const Piece& piece : pieces) {
    NMM_ASSIGN(const auto rows, states.read(piece.first, piece.length));
    if (all.empty()) all = training::Rows<float>(tokens_of(pieces), rows.columns());
    std::copy_n(rows.data(), rows.size(), all.row(row));
    row += piece.length;
  }
  return all;
}

training::Sequences lengths_of(std::span<const Piece> pieces) {
  training::Sequences sequences;
  for (const Piece& piece : pieces) sequences.lengths.push_back(piece.length);
  return sequences;
}

Result<double> mean_error(TrainingLayer& layer, const LayerText& text,
                          std::span<const Piece> pieces, training::Precision precision) {
  double sum = 0.0;
  NMM_TRY(for_each_group(pieces, [&](std::span<const Piece> group) -> Status {
    NMM_ASSIGN(const auto inputs, rows_of(text.inputs, group));
    NMM_ASSIGN(const auto targets, rows_of(text.targets, group));
    const auto y = training::run_layer<float>(layer, precision, inputs.view(), lengths_of(group));
    sum += training::layer_loss<float>(y.view(), targets.view(), {}, precision, 1.0, nullptr);
    return {};
  }));
  return sum / static_cast<double>(tokens_of(pieces));
}

Result<Learned> learn_layer(TrainingLayer& layer, const LayerText& text,
                            const LearningSettings& settings, const LayerReader& reader,
                            const std::function<void(double error)>& step_done) {
  const auto started = std::chrono::steady_clock::now();
  Learned learned;
  LayerOutcome& outcome = learned.outcome;
  NMM_ASSIGN(outcome.before, mean_error(layer, text, text.held_out, settings.precision));
  outcome.after = outcome.before;
  // A layer without an error has nothing to learn.
  if (std::isfinite(outcome.before) && outcome.before > 0.0) {
    training::train<float>(layer,
                           [&](std::string_view name) { return reader.learns(std::string(name)); });
    NMM_ASSIGN(learned.changed,
               Learning(layer, text, settings, step_done).run(layer, outcome.before, outcome));
  }
  if (learned.changed) {
    round_as_stored(reader, layer);
    NMM_ASSIGN(const double after, mean_error(layer, text, text.held_out, settings.precision));
    learned.changed = after < outcome.before;
    if (learned.changed) outcome.after = after;
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started;
  outcome.seconds = elapsed.count();
  return learned;
}

}  // namespace neuronmm::compress
