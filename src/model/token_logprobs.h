#pragma once
// How likely the model found a token, and what it found likelier.

#include <span>
#include <vector>

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
// finite.
TokenLogprobs token_logprobs(std::span<const float> logits, text::TokenId chosen, int64_t count);

}  // namespace neuronmm::model
