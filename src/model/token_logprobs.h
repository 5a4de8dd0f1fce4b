#pragma once
// How likely the model found a token, and what it found likelier.

#include <optional>
#include <span>
#include <vector>

#include "ops/log_sum.h"
#include "text/token_id.h"

namespace neuronmm::model {

struct TokenLogprob {
  text::TokenId id = 0;
  double logprob = 0.0;  // natural logarithm of its probability
};

struct TokenLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // the most likely first; of equal ones the smaller id
};

// log softmax(logits) of `chosen` and of the `count` most likely tokens. These are the model's own
// probabilities, before any penalty, temperature or filter (vLLM's raw_logprobs). The logits are
// finite; with their log sum, all but those tokens' may be missing.
TokenLogprobs token_logprobs(std::span<const float> logits, text::TokenId chosen, int64_t count,
                             const std::optional<ops::LogSum>& log_sum = {});

// The same of one token. NaN where any logit is NaN, and where the largest is infinite.
double log_probability(std::span<const float> logits, text::TokenId token,
                       const std::optional<ops::LogSum>& log_sum = {});

}  // namespace neuronmm::model
