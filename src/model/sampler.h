#pragma once
// The next token from logits: the most likely one, or one that is drawn.

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "model/candidates.h"
#include "model/logits_processors.h"

namespace neuronmm::model {

// Applied in this order: biases and penalties as in vLLM, then temperature, top-k, top-p and min-p
// as in transformers.
struct SamplingOptions {
  double temperature = 0.0;         // 0: greedy (the largest logit; ties: the smallest id)
  int64_t top_k = 0;                // 0: off
  double top_p = 1.0;               // 1: off
  double min_p = 0.0;               // 0: off
  double repetition_penalty = 1.0;  // 1: off
  double frequency_penalty = 0.0;   // 0: off
  double presence_penalty = 0.0;    // 0: off
  std::vector<LogitBias> logit_bias = {};
  uint64_t seed = 0;
};

// Tokens, as bits: token id is bit id % 64 of word id / 64. An empty span stands for all tokens.
using TokenSet = std::span<const uint64_t>;

class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);
  // What the penalties look at: the tokens of the prompt, and those generated so far. Tokens that
  // are not allowed are as if the vocabulary did not have them; at least one is.
  TokenId sample(std::span<const float> logits, std::span<const TokenId> prompt,
                 std::span<const TokenId> generated = {}, TokenSet allowed = {});
  // What sample() draws from where the temperature is not 0.
  std::vector<Candidate> candidates(std::span<const float> logits, std::span<const TokenId> prompt,
                                    std::span<const TokenId> generated,
                                    TokenSet allowed = {}) const;

 private:
  std::vector<double> processed(std::span<const float> logits, std::span<const TokenId> prompt,
                                std::span<const TokenId> generated, TokenSet allowed) const;
  SamplingOptions options_;
  std::mt19937_64 random_;
};

}  // namespace neuronmm::model
