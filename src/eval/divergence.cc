#include "eval/divergence.h"

#include <algorithm>
#include <cmath>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "model/token_logprobs.h"
#include "ops/divergence.h"

namespace neuronmm::eval {
namespace {

using model::Transformer;
using text::TokenId;
using Row = std::span<const float>;

size_t choice_of(Row logits) {
  return static_cast<size_t>(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace

TokenDivergence compare_predictions(Row dense, Row other, TokenId target) {
  const size_t dense_choice = choice_of(dense), other_choice = choice_of(other);
  return {ops::kl_divergence(dense, other), -model::log_probability(dense, target),
          -model::log_probability(other, target), dense_choice == other_choice};
}

Status check_comparable(const io::ModelConfig& dense, const io::ModelConfig& other,
                        int64_t longest) {
  if (dense.vocab_size != other.vocab_size) {
    return fail("expected two models of one vocab_size, found {} and {}", dense.vocab_size,
                other.vocab_size);
  }
  const int64_t limit = std::min(dense.max_position_embeddings, other.max_position_embeddings);
  if (longest <= limit) return {};
  return fail("expected sequences of at most {} tokens (max_position_embeddings), found {}", limit,
              longest);
}

Status check_sequence(const io::ModelConfig& dense, const io::ModelConfig& other,
                      std::span<const TokenId> sequence) {
  NMM_TRY(check_comparable(dense, other, std::ssize(sequence)));
  if (sequence.size() < 2) {
    return fail("expected sequences of at least 2 tokens, found {}", sequence.size());
  }
  return model::check_token_ids(sequence, dense);
}

Result<SequenceDivergence> sequence_divergence(const Transformer& dense, const Transformer& other,
                                               std::span<const TokenId> sequence,
                                               double* other_seconds, DType dtype_of_other_cache) {
  NMM_TRY(check_sequence(dense.config(), other.config(), sequence));
  const int64_t inputs = std::ssize(sequence) - 1;  // the last token is only a target
  const auto dense_cache = dense.make_cache(inputs, DType::kF32);
  const auto other_cache = other.make_cache(inputs, dtype_of_other_cache);
  dense_cache->set_expected_tokens(inputs);
  other_cache->set_expected_tokens(inputs);
  SequenceDivergence result(static_cast<size_t>(inputs));
  for (int64_t first = 0; first < inputs; first += kDivergencePiece) {
    if (interrupted()) return interrupted_error("the divergence is not measured");
    const int64_t count = std::min(kDivergencePiece, inputs - first);
    const auto piece = sequence.subspan(first, count);
    const Matrix a = dense.forward(piece, *dense_cache, Transformer::Logits::kAll);
    const double start = other.backend().clock_seconds();
    const Matrix b = other.forward(piece, *other_cache, Transformer::Logits::kAll);
    if (other_seconds != nullptr) *other_seconds += other.backend().clock_seconds() - start;
    parallel_for(count, [&](int64_t i) {
      const auto columns = static_cast<size_t>(a.columns());
      result[static_cast<size_t>(first + i)] =
          compare_predictions({a.row(i), columns}, {b.row(i), columns}, sequence[first + i + 1]);
    });
  }
  return result;
}

double DivergenceSummary::perplexity_ratio() const { return std::exp(added_loss.value); }

DivergenceSummary summarize(std::span<const SequenceDivergence> sequences) {
  DivergenceSummary summary;
  std::vector<WindowSum> divergence, agreement, added;
  double dense_loss = 0.0, loss = 0.0;
  for (const SequenceDivergence& sequence : sequences) {
    const int64_t tokens = std::ssize(sequence);
    summary.tokens += tokens;
    WindowSum& kl = divergence.emplace_back(WindowSum{0.0, tokens});
    WindowSum& same_choices = agreement.emplace_back(WindowSum{0.0, tokens});
    WindowSum& added_loss = added.emplace_back(WindowSum{0.0, tokens});
    double window_dense_loss = 0.0, window_loss = 0.0;
    for (const TokenDivergence& token : sequence) {
      kl.sum += token.divergence;
      same_choices.sum += token.same_choice ? 1.0 : 0.0;
      added_loss.sum += token.loss - token.dense_loss;
      window_dense_loss += token.dense_loss;
      window_loss += token.loss;
    }
    // Losses are added window by window, as perplexity() does, so that the bits are the same.
    dense_loss += window_dense_loss;
    loss += window_loss;
  }
  const auto n = static_cast<double>(summary.tokens);
  summary.divergence = mean_over_windows(divergence);
  summary.agreement = mean_over_windows(agreement);
  summary.added_loss = mean_over_windows(added);
  summary.dense_perplexity = std::exp(dense_loss / n);
  summary.perplexity = std::exp(loss / n);
  return summary;
}

}  // namespace neuronmm::eval
