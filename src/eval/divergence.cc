#include "eval/divergence.h"

#include <algorithm>
#include <cmath>

#include "base/interrupt.h"
#include "base/parallel.h"

namespace neuronmm::eval {
namespace {

using model::Transformer;
using text::TokenId;
using Row = std::span<const float>;

// Tokens per forward call: the logits of both models take 0.3 GB at a vocabulary of 152 thousand.
constexpr int64_t kDivergencePiece = 256;

double log_sum_exp(Row logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

// With log p = x - log_sum_exp(x): KL(p || q) = sum of p (log p - log q).
TokenDivergence compare(Row dense, Row other, TokenId target) {
  const double dense_norm = log_sum_exp(dense), other_norm = log_sum_exp(other);
  double divergence = other_norm - dense_norm;
  for (size_t i = 0; i < dense.size(); ++i) {
    const double probability = std::exp(dense[i] - dense_norm);
    divergence += probability * (static_cast<double>(dense[i]) - other[i]);
  }
  return {divergence, dense_norm - dense[target], other_norm - other[target]};
}

Status check_sequences(const Transformer& dense, const Transformer& other,
                       std::span<const std::vector<TokenId>> sequences) {
  const io::ModelConfig &a = dense.config(), &b = other.config();
  if (a.vocab_size != b.vocab_size) {
    return fail("expected two models of one vocab_size, found {} and {}", a.vocab_size,
                b.vocab_size);
  }
  const int64_t limit = std::min(a.max_position_embeddings, b.max_position_embeddings);
  for (const std::vector<TokenId>& sequence : sequences) {
    if (std::ssize(sequence) < 2 || std::ssize(sequence) > limit) {
      return fail("expected sequences of 2 to {} tokens (max_position_embeddings), found {}", limit,
                  sequence.size());
    }
    NMM_TRY(model::check_token_ids(sequence, a));
  }
  return {};
}

Status append_sequence(const Transformer& dense, const Transformer& other,
                       std::span<const TokenId> sequence, std::vector<TokenDivergence>& result) {
  const int64_t inputs = std::ssize(sequence) - 1;  // the last token is only a target
  const auto dense_cache = dense.make_cache(inputs, DType::kF32);
  const auto other_cache = other.make_cache(inputs, DType::kF32);
  for (int64_t first = 0; first < inputs; first += kDivergencePiece) {
    if (interrupted()) return interrupted_error("the divergence is not measured");
    const int64_t count = std::min(kDivergencePiece, inputs - first);
    const auto piece = sequence.subspan(first, count);
    const Matrix a = dense.forward(piece, *dense_cache, Transformer::Logits::kAll);
    const Matrix b = other.forward(piece, *other_cache, Transformer::Logits::kAll);
    const size_t begin = result.size();
    result.resize(begin + static_cast<size_t>(count));
    parallel_for(count, [&](int64_t i) {
      const auto columns = static_cast<size_t>(a.columns());
      result[begin + static_cast<size_t>(i)] =
          compare({a.row(i), columns}, {b.row(i), columns}, sequence[first + i + 1]);
    });
  }
  return {};
}

}  // namespace

Result<std::vector<TokenDivergence>> token_divergences(
    const Transformer& dense, const Transformer& other,
    std::span<const std::vector<TokenId>> sequences, Progress& progress) {
  NMM_TRY(check_sequences(dense, other, sequences));
  std::vector<TokenDivergence> result;
  progress.start("comparing with the dense model", std::ssize(sequences));
  for (size_t i = 0; i < sequences.size(); ++i) {
    NMM_TRY(append_sequence(dense, other, sequences[i], result));
    progress.update(static_cast<int64_t>(i) + 1);
  }
  progress.finish();
  return result;
}

DivergenceSummary summarize(std::span<const TokenDivergence> tokens) {
  double divergence = 0.0, dense_loss = 0.0, loss = 0.0;
  for (const TokenDivergence& token : tokens) {
    divergence += token.divergence;
    dense_loss += token.dense_loss;
    loss += token.loss;
  }
  const auto n = static_cast<double>(tokens.size());
  return {std::ssize(tokens), divergence / n, std::exp(dense_loss / n), std::exp(loss / n)};
}

Result<DivergenceSummary> folder_divergence(const std::filesystem::path& dense,
                                            const std::filesystem::path& other,
                                            std::span<const std::vector<text::TokenId>> sequences,
                                            const ops::Backend& backend, Progress& progress) {
  NMM_ASSIGN(const auto dense_model, model::Transformer::load(dense, backend));
  NMM_ASSIGN(const auto other_model, model::Transformer::load(other, backend));
  NMM_ASSIGN(const auto tokens, token_divergences(dense_model, other_model, sequences, progress));
  return summarize(tokens);
}

}  // namespace neuronmm::eval
