#pragma once
// The next token from logits: greedy, or drawn after repetition penalty, temperature, top-k and
// top-p, in that order.

#include <cstdint>
#include <random>
#include <span>

#include "text/tokenizer.h"

namespace neuronmm::model {

using text::TokenId;

struct SamplingOptions {
  double temperature = 0.0;  // 0: greedy (the largest logit; ties: the smallest id)
  int64_t top_k = 0;         // 0: off
  double top_p =
      1.0;  // 1: off; keeps the smallest set of most likely tokens whose mass reaches top_p
  double repetition_penalty =
      1.0;  // 1: off; logits of tokens already seen: l > 0 ? l / p : l * p (CTRL, section 4.1)
  uint64_t seed = 0;
};

class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);
  // `seen`: prompt and generated tokens so far, for the repetition penalty.
  TokenId sample(std::span<const float> logits, std::span<const TokenId> seen);

 private:
  SamplingOptions options_;
  std::mt19937_64 random_;
};

}  // namespace neuronmm::model
