#pragma once
// How far a model's predictions have moved from those of the model it was made of: token by token,
// on the same sequences.

#include <filesystem>
#include <span>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "model/transformer.h"

namespace neuronmm::eval {

// The two predictions of one token, in nats. Not finite where a model's logits are not.
struct TokenDivergence {
  double divergence = 0.0;  // KL(p_dense || p_other) over the whole vocabulary
  double dense_loss = 0.0;  // -log p_dense(token)
  double loss = 0.0;        // -log p_other(token)
};

// Every token of every sequence but its first, sequence by sequence; each sequence is a fresh
// context. In memory at a time: both models' logits of 256 tokens and the keys and values of one
// sequence. Errors: vocabularies that differ, a sequence of less than two tokens or beyond a
// model's max_position_embeddings, ids outside the vocabulary, an interrupt.
Result<std::vector<TokenDivergence>> token_divergences(
    const model::Transformer& dense, const model::Transformer& other,
    std::span<const std::vector<text::TokenId>> sequences, Progress& progress);

struct DivergenceSummary {
  int64_t tokens = 0;
  double divergence = 0.0;  // the mean
  double dense_perplexity = 0.0, perplexity = 0.0;
};
// `tokens` is not empty.
DivergenceSummary summarize(std::span<const TokenDivergence> tokens);

// Of two model folders, which are both in memory for it; there is at least one sequence.
Result<DivergenceSummary> folder_divergence(const std::filesystem::path& dense,
                                            const std::filesystem::path& other,
                                            std::span<const std::vector<text::TokenId>> sequences,
                                            const ops::Backend& backend, Progress& progress);

}  // namespace neuronmm::eval
