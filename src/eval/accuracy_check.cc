#include "eval/accuracy_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/interrupt.h"

namespace neuronmm::eval {
namespace {

using text::TokenId;
using LogitRow = std::span<const float>;

// Returns the first of the largest logits. A NaN is never the largest, unless all are NaN.
TokenId greedy_token(LogitRow logits) {
  TokenId best = 0;
  for (size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[best] || std::isnan(logits[best])) best = static_cast<TokenId>(i);
  }
  return best;
}

// Returns the difference. One that is not finite counts as infinite, so that it exceeds any
// tolerance.
double deviation(float reference, float model) {
  const double difference = std::abs(static_cast<double>(model) - reference);
  return std::isfinite(difference) ? difference : std::numeric_limits<double>::infinity();
}

// Compares one position after the other and collects the report.
class Comparison {
 public:
  Comparison(const AccuracyOptions& options, int64_t vocab_size)
      : options_(options),
        // Without a map one tolerance holds for all logits.
        tolerances_(options.tolerance_map.value_or(
            ToleranceMap{{std::nullopt, options.divergence_tol, 0.0}})),
        ids_by_reference_logit_(vocab_size) {
    for (const Tolerance& tolerance : tolerances_) {
      largest_top_k_ = std::max(largest_top_k_, std::min(vocab_size, tolerance.top_k.value_or(0)));
    }
  }

  void compare(int64_t sequence, int64_t position, LogitRow reference, LogitRow model) {
    sequence_ = sequence;
    position_ = position;
    ++report_.positions;
    find_largest_deviation(reference, model);
    check_tokens(reference, model);
    if (options_.mode == AccuracyOptions::Mode::kLogitMatching) check_logits(reference, model);
  }

  AccuracyReport finish(int64_t sequences) {
    report_.sequences = sequences;
    report_.passed = report_.first_failure.empty();
    return std::move(report_);
  }

 private:
  void find_largest_deviation(LogitRow reference, LogitRow model) {
    for (size_t i = 0; i < reference.size(); ++i) {
      const double value = deviation(reference[i], model[i]);
      if (value <= report_.largest_deviation.value) continue;
      report_.largest_deviation = {value,        sequence_, position_, static_cast<TokenId>(i),
                                   reference[i], model[i]};
    }
  }

  // Compares the chosen tokens, not only the logits. If two tokens are nearly tied, another choice
  // is allowed as long as the gap is small.
  void check_tokens(LogitRow reference, LogitRow model) {
    const TokenId expected = greedy_token(reference), found = greedy_token(model);
    if (expected == found) return;
    ++report_.divergences;
    const double gap = static_cast<double>(model[found]) - model[expected];
    if (!report_.first_divergence) {
      report_.first_divergence = Divergence{sequence_, position_, expected, found, gap};
    }
    if (options_.mode == AccuracyOptions::Mode::kTokenMatching) {
      record_failure(fmt::format("token {} instead of {}", found, expected));
    } else if (!(gap <= options_.divergence_tol)) {  // a NaN gap fails, too
      record_failure(
          fmt::format("token {} instead of {}, their logits {:.3g} apart, allowed {:.3g}", found,
                      expected, gap, options_.divergence_tol));
    }
  }

  // Checks every tolerance, each over the k largest reference logits. One partial sort serves all
  // k.
  void check_logits(LogitRow reference, LogitRow model) {
    std::iota(ids_by_reference_logit_.begin(), ids_by_reference_logit_.end(), 0);
    std::partial_sort(ids_by_reference_logit_.begin(),
                      ids_by_reference_logit_.begin() + largest_top_k_,
                      ids_by_reference_logit_.end(),
                      [&](TokenId a, TokenId b) { return reference[a] > reference[b]; });
    for (const Tolerance& tolerance : tolerances_) check_top_k(tolerance, reference, model);
  }

  void check_top_k(const Tolerance& tolerance, LogitRow reference, LogitRow model) {
    const int64_t vocab_size = std::ssize(ids_by_reference_logit_);
    const int64_t k = std::min(tolerance.top_k.value_or(vocab_size), vocab_size);
    double largest = 0.0, largest_reference = 0.0;
    for (const TokenId id : std::span(ids_by_reference_logit_).first(k)) {
      largest = std::max(largest, deviation(reference[id], model[id]));
      largest_reference = std::max(largest_reference, std::abs(static_cast<double>(reference[id])));
    }
    const double allowed = tolerance.absolute + tolerance.relative * largest_reference;
    if (largest <= allowed) return;
    const std::string which =
        tolerance.top_k ? fmt::format("the {} largest logits", k) : "the logits";
    record_failure(fmt::format("{} differ by {:.3g}, allowed {:.3g}", which, largest, allowed));
  }

  // Keeps the first reason only, because later ones mostly follow from it.
  void record_failure(const std::string& why) {
    if (!report_.first_failure.empty()) return;
    report_.first_failure = fmt::format("sequence {}, position {}: {}", sequence_, position_, why);
  }

  const AccuracyOptions& options_;
  ToleranceMap tolerances_;
  int64_t largest_top_k_ = 0;
  // Ids with the largest reference logits first, sorted up to largest_top_k_.
  std::vector<TokenId> ids_by_reference_logit_;
  int64_t sequence_ = 0, position_ = 0;
  AccuracyReport report_;
};

Status check_matches_model(const io::ModelConfig& config, const ReferenceSequence& sequence) {
  if (sequence.logits.columns() != config.vocab_size) {
    return fail("reference: expected logits of {} tokens (the model's vocab_size), found {}",
                config.vocab_size, sequence.logits.columns());
  }
  if (std::ssize(sequence.tokens) > config.max_position_embeddings) {
    return fail(
        "reference: a sequence of {} tokens is longer than the model's "
        "max_position_embeddings {}",
        sequence.tokens.size(), config.max_position_embeddings);
  }
  return {};
}

}  // namespace

Result<AccuracyReport> check_accuracy(const model::Transformer& transformer,
                                      const ReferenceLogits& reference,
                                      const AccuracyOptions& options, Progress& progress) {
  const int64_t vocab_size = transformer.config().vocab_size;
  Comparison comparison(options, vocab_size);
  const int64_t sequences = std::ssize(reference);
  progress.start("comparing with the reference", sequences);
  for (int64_t s = 0; s < sequences; ++s) {
    const ReferenceSequence& sequence = reference[s];
    NMM_TRY(check_matches_model(transformer.config(), sequence));
    if (interrupted()) {
      return interrupted_error(fmt::format("{} of {} sequences compared", s, sequences));
    }
    const Matrix logits = position_logits(transformer, sequence.tokens, sequence.first_position);
    for (int64_t i = 0; i < logits.rows(); ++i) {
      const auto size = static_cast<size_t>(vocab_size);
      comparison.compare(s, sequence.first_position + i, {sequence.logits.row(i), size},
                         {logits.row(i), size});
    }
    progress.update(s + 1);
  }
  progress.finish();
  return comparison.finish(sequences);
}

}  // namespace neuronmm::eval
