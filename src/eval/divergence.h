#pragma once
// How far a model's predictions have moved from those of the dense model that it was made from.
// Both models predict every token of the same sequences. `eval`, `perplexity` and `compress` report
// these values.

#include <span>
#include <vector>

#include "base/result.h"
#include "eval/interval.h"
#include "model/transformer.h"

namespace neuronmm::eval {

// The predictions of one token by both models, in nats. Values are not finite if a model's logits
// are not.
struct TokenDivergence {
  double divergence = 0.0;   // KL(p_dense || p_other) over the whole vocabulary, in fp64
  double dense_loss = 0.0;   // -log p_dense(token), bit for bit what perplexity() adds up
  double loss = 0.0;         // -log p_other(token)
  bool same_choice = false;  // both models' most likely token is the same (the first among equals)
};
// The divergences of a sequence, with an entry for every token except the first.
using SequenceDivergence = std::vector<TokenDivergence>;

// Compares two rows of logits over one vocabulary that predict `target`.
TokenDivergence compare_predictions(std::span<const float> dense, std::span<const float> other,
                                    text::TokenId target);

// Checks that two models can be compared on sequences of up to `longest` tokens. Errors:
// vocabularies of different sizes, or sequences longer than one of the models takes.
Status check_comparable(const io::ModelConfig& dense, const io::ModelConfig& other,
                        int64_t longest);

// Checks the same for one sequence. Fewer than two tokens and ids outside the vocabulary are
// errors, too.
Status check_sequence(const io::ModelConfig& dense, const io::ModelConfig& other,
                      std::span<const text::TokenId> sequence);

// Tokens per forward call. Assumed: as fp32 the logits of both models take 0.3 GB with a vocabulary
// of 152 thousand.
inline constexpr int64_t kDivergencePiece = 256;

// Compares two models on one sequence, in a fresh context. Memory holds both models' logits of one
// piece and their keys and values. If `other_seconds` is given, it grows by the time that the other
// model takes on its backend's clock. The other model keeps keys and values in `other_cache`.
// Errors: what check_sequence() finds, an interrupt.
Result<SequenceDivergence> sequence_divergence(const model::Transformer& dense,
                                               const model::Transformer& other,
                                               std::span<const text::TokenId> sequence,
                                               double* other_seconds = nullptr,
                                               DType other_cache = DType::kF32);

// Means per token. The samples of their standard errors are the sequences (interval.h).
struct DivergenceSummary {
  int64_t tokens = 0;
  Estimate divergence;  // KL(dense || other), nats
  Estimate agreement;   // share of the tokens for which both models choose the same
  Estimate added_loss;  // loss - dense_loss in nats, paired token by token
  double dense_perplexity = 0.0, perplexity = 0.0;

  // Returns perplexity / dense_perplexity. The bounds of its interval are exp of those of
  // added_loss.
  double perplexity_ratio() const;
};
// Averages over all tokens of all sequences. There must be at least one token.
DivergenceSummary summarize(std::span<const SequenceDivergence> sequences);

}  // namespace neuronmm::eval
