#pragma once
// Chooses the next token from logits: the most likely one (temperature 0), or one drawn at random.
// Continuation owns a Sampler per sequence. Its random numbers do not depend on the platform.

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "model/candidates.h"
#include "model/dry.h"
#include "model/logits_processors.h"

namespace neuronmm::model {

// How a token is chosen. Biases and penalties are applied first, as in vLLM; temperature, top-k,
// typical-p, top-p, min-p and XTC follow in this order. Typical-p and XTC look at probabilities of
// temperature 1, as in llama.cpp. With `temperature_last` so do top-p and min-p.
struct SamplingOptions {
  double temperature = 0.0;  // 0 is greedy: the largest logit, and the smallest id among equal ones
  int64_t top_k = 0;         // 0 turns it off
  double top_p = 1.0;        // 1 turns it off
  double min_p = 0.0;        // 0 turns it off
  bool temperature_last = false;
  double typical_p = 1.0;  // 1 turns it off
  // XTC: with this probability the likely tokens are left out, except for the least likely of them.
  // Likely tokens have at least the probability `xtc_threshold`.
  double xtc_probability = 0.0, xtc_threshold = 0.1;
  double repetition_penalty = 1.0;  // 1 turns it off
  // A repetition penalty for the last `repeat_last_n` tokens only; -1 means all tokens.
  double repeat_penalty = 1.0;     // 1 turns it off
  int64_t repeat_last_n = 64;      // 0 turns it off
  double frequency_penalty = 0.0;  // 0 turns it off
  double presence_penalty = 0.0;   // 0 turns it off
  DryOptions dry = {};
  std::vector<LogitBias> logit_bias = {};
  uint64_t seed = 0;

  bool penalises_recent_tokens() const { return repeat_penalty != 1.0 && repeat_last_n != 0; }
};

// A set of tokens as bits: token id is bit id % 64 of word id / 64. An empty span stands for all
// tokens.
using TokenSet = std::span<const uint64_t>;

// The state of one sequence's random choices.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);
  // Returns the chosen token. `prompt` and `generated` are what the penalties look at. Tokens
  // outside `allowed` are treated as if the vocabulary did not have them; at least one token must
  // be allowed.
  TokenId sample(std::span<const float> logits, std::span<const TokenId> prompt,
                 std::span<const TokenId> generated = {}, TokenSet allowed = {});
  // Returns the candidates from which sample() draws if the temperature is not 0 and XTC leaves out
  // none.
  std::vector<Candidate> candidates(std::span<const float> logits, std::span<const TokenId> prompt,
                                    std::span<const TokenId> generated,
                                    TokenSet allowed = {}) const;

 private:
  std::vector<double> processed(std::span<const float> logits, std::span<const TokenId> prompt,
                                std::span<const TokenId> generated, TokenSet allowed) const;
  std::vector<Candidate> filtered(std::span<const double> logits, TokenSet allowed) const;
  double uniform();
  SamplingOptions options_;
  std::mt19937_64 random_;
};

}  // namespace neuronmm::model
