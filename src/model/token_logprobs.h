#pragma once
// Log-probabilities of tokens: how likely the model found the chosen token, and which tokens it
// found more likely. Generation, the server and evaluation report them.

#include <optional>
#include <span>
#include <vector>

#include "ops/log_sum.h"
#include "text/tokenizer/token_id.h"

namespace neuronmm::model {

struct TokenLogprob {
  text::TokenId id = 0;
  double logprob = 0.0;  // natural logarithm of the token's probability
};

struct TokenLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // the most likely first; among equal ones the smaller id first
};

// Returns log softmax(logits) of `chosen` and of the `count` most likely tokens. These are the
// model's own probabilities, before any penalty, temperature or filter (vLLM's raw_logprobs). The
// logits must be finite. If `log_sum` is given, only the logits of the returned tokens need to be
// in `logits`.
TokenLogprobs token_logprobs(std::span<const float> logits, text::TokenId chosen, int64_t count,
                             const std::optional<ops::LogSum>& log_sum = {});

// Returns the log-probability of one token. It is NaN if any logit is NaN or if the largest is
// infinite.
double log_probability(std::span<const float> logits, text::TokenId token,
                       const std::optional<ops::LogSum>& log_sum = {});

}  // namespace neuronmm::model
