#pragma once
// Biases and penalties that change logits before the sampler chooses a token. They ignore ids that
// have no logit.

#include <span>

#include "base/result.h"
#include "text/tokenizer/token_id.h"

namespace neuronmm::model {

using text::TokenId;

// A number that is added to the logit of one token.
struct LogitBias {
  TokenId id = 0;
  double bias = 0.0;
};

// Returns an error that names the first id outside [0, vocab_size), if there is one.
Status check_biases(std::span<const LogitBias> biases, int64_t vocab_size);

// Adds every bias to its token's logit. Several biases of one id add up (OpenAI's logit_bias).
void add_biases(std::span<double> logits, std::span<const LogitBias> biases);

// Changes the logit l of every token that the prompt or the answer contains to l > 0 ? l / penalty
// : l * penalty. Repeated tokens count once (CTRL, arXiv 1909.05858, section 4.1).
void penalise_repetition(std::span<double> logits, std::span<const TokenId> prompt,
                         std::span<const TokenId> generated, double penalty);

// Subtracts `penalty` from a token's logit for every time that the token was generated (OpenAI's
// frequency_penalty).
void penalise_frequency(std::span<double> logits, std::span<const TokenId> generated,
                        double penalty);

// Subtracts `penalty` once from the logit of every token that was generated (OpenAI's
// presence_penalty).
void penalise_presence(std::span<double> logits, std::span<const TokenId> generated,
                       double penalty);

}  // namespace neuronmm::model
