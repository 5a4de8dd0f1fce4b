#pragma once
// How far a model's predictions have moved from those of the model it was made of: token by token,
// on the same sequences.

#include <span>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "eval/interval.h"
#include "model/transformer.h"

namespace neuronmm::eval {

// The two predictions of one token, in nats. Not finite where a model's logits are not.
struct TokenDivergence {
  double divergence = 0.0;   // KL(p_dense || p_other) over the whole vocabulary, in fp64
  double dense_loss = 0.0;   // -log p_dense(token), the bits that a perplexity is made of
  double loss = 0.0;         // -log p_other(token)
  bool same_choice = false;  // the likeliest token of both is the same (of equals the first)
};
using SequenceDivergence = std::vector<TokenDivergence>;  // of every token but the first

// Of two rows of logits of one vocabulary.
TokenDivergence compare_predictions(std::span<const float> dense, std::span<const float> other,
                                    text::TokenId target);

// Two models that can be compared on sequences of up to `longest` tokens. Errors: vocabularies of
// different sizes, longer sequences than one of them takes.
Status check_comparable(const io::ModelConfig& dense, const io::ModelConfig& other,
                        int64_t longest);

// The same for one sequence; an error, too, for less than two tokens and for ids outside the
// vocabulary.
Status check_sequence(const io::ModelConfig& dense, const io::ModelConfig& other,
                      std::span<const text::TokenId> sequence);

// Tokens per forward call: the logits of both models take 0.3 GB at a vocabulary of 152 thousand.
inline constexpr int64_t kDivergencePiece = 256;

// One sequence, a fresh context. In memory at a time: both models' logits of one piece and their
// keys and values. `other_seconds`, if any, grows by what the other model takes on its backend's
// clock. Errors: what check_sequence finds, an interrupt.
Result<SequenceDivergence> sequence_divergence(const model::Transformer& dense,
                                               const model::Transformer& other,
                                               std::span<const text::TokenId> sequence,
                                               double* other_seconds = nullptr);

// All of them; what is wrong with any is found before the first is computed.
Result<std::vector<SequenceDivergence>> token_divergences(
    const model::Transformer& dense, const model::Transformer& other,
    std::span<const std::vector<text::TokenId>> sequences, Progress& progress);

// Means per token; their standard errors are those of windows (interval.h), here the sequences.
struct DivergenceSummary {
  int64_t tokens = 0;
  Estimate divergence;  // KL(dense || other), nats
  Estimate agreement;   // share of the tokens where both models choose the same
  Estimate added_loss;  // loss - dense_loss, paired token by token, nats
  double dense_perplexity = 0.0, perplexity = 0.0;

  // perplexity / dense_perplexity; its interval is exp of added_loss's.
  double perplexity_ratio() const;
};
// There is at least one token.
DivergenceSummary summarize(std::span<const SequenceDivergence> sequences);

}  // namespace neuronmm::eval
