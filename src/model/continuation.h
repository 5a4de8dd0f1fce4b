#pragma once
// What is made of the logits after a prompt: token after token, until one of them ends it. Nothing
// here knows who computes the logits: generate() for itself, the serving engine for many at once.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/sampler.h"
#include "model/token_constraint.h"
#include "model/token_logprobs.h"
#include "ops/wanted_logits.h"

namespace neuronmm::model {

struct GenerateOptions {
  int64_t max_new_tokens = 128;
  SamplingOptions sampling = {};
  std::vector<TokenId> stop_tokens = {};  // generation ends before such a token is emitted
  std::optional<int64_t> logprobs = {};   // of every token, and of so many likely ones beside it
  int64_t min_new_tokens = 0;             // no stop token is chosen before so many
};

// Why a sequence ended. kComplete: its constraint lets nothing follow.
enum class Stop { kStopToken, kComplete, kLimit, kContextFull, kInterrupted, kCaller };

// What a step added to the sequence, and whether it ends there.
struct Step {
  std::optional<TokenId> token = {};
  std::optional<TokenLogprobs> logprobs = {};  // of the token, where the options ask for them
  std::optional<Stop> stop = {};
  std::optional<TokenId> stop_token = {};  // which one ended it; it is no part of the sequence
};

class Continuation {
 public:
  // Of the options' max_new_tokens no more than `room` fit. Answers of other seeds than the
  // options' say theirs.
  Continuation(std::vector<TokenId> prompt, GenerateOptions options, int64_t room,
               std::unique_ptr<TokenConstraint> constraint = nullptr);

  std::span<const TokenId> tokens() const { return tokens_; }  // the prompt, then what was made
  std::span<const TokenId> prompt() const { return tokens().first(prompt_length_); }
  std::span<const TokenId> generated() const { return tokens().subspan(prompt_length_); }
  int64_t limit() const { return limit_; }  // new tokens at most; 0 or less: none can be made

  // What extend() looks at, next time. To draw from all tokens, or from those that a constraint
  // allows, takes all logits.
  ops::WantedLogits wanted() const;
  // Takes the token that follows all tokens so far. Logits that are not finite are an error: one
  // would win every comparison or poison the softmax, and generate text that looks merely odd.
  // Without a log sum all logits are there.
  Result<Step> extend(std::span<const float> logits,
                      const std::optional<ops::LogSum>& log_sum = {});

 private:
  bool may_stop() const;
  TokenSet allowed_tokens(size_t vocabulary);
  std::optional<Stop> stop_after_token() const;

  const GenerateOptions options_;
  const int64_t limit_;
  const size_t prompt_length_;
  std::vector<TokenId> tokens_;
  std::unique_ptr<TokenConstraint> constraint_;
  Sampler sampler_;
  std::vector<uint64_t> allowed_;
};

}  // namespace neuronmm::model
