#pragma once
// How one sequence goes on after its prompt: the caller hands in the logits after the last token,
// and a Continuation chooses the next token and says when the sequence ends. It does not know who
// computes the logits: generate() uses it for a few sequences, the serving engine for many at once.
// Logits that are not finite are an error.

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
  // The sequence ends before such a token, which is not emitted.
  std::vector<TokenId> stop_tokens = {};
  // With a value, every step tells its token's log-probability and those of this many of the most
  // likely tokens.
  std::optional<int64_t> logprobs = {};
  // Stop tokens cannot be chosen before the answer has this many tokens.
  int64_t min_new_tokens = 0;
};

// Why a sequence ended:
//   kStopToken    the model chose one of GenerateOptions::stop_tokens
//   kComplete     the constraint lets nothing follow
//   kLimit        max_new_tokens tokens were generated
//   kContextFull  the model's context has no space for another token
//   kInterrupted  the user asked the program to stop
//   kCaller       the caller's on_token returned false
enum class Stop { kStopToken, kComplete, kLimit, kContextFull, kInterrupted, kCaller };

// The token that a step added to the sequence, if any, and the reason if the sequence ends here.
struct Step {
  std::optional<TokenId> token = {};
  std::optional<TokenLogprobs> logprobs = {};  // of the token, if the options ask for them
  std::optional<Stop> stop = {};
  // The stop token that ended the sequence; it is not part of it.
  std::optional<TokenId> stop_token = {};
};

// A sequence while it is generated: its tokens, its sampler and its constraint.
class Continuation {
 public:
  // At most `room` new tokens are generated, even if the options' max_new_tokens allows more.
  Continuation(std::vector<TokenId> prompt, GenerateOptions options, int64_t room,
               std::unique_ptr<TokenConstraint> constraint = nullptr);

  // The prompt, then the generated tokens.
  std::span<const TokenId> tokens() const { return tokens_; }
  std::span<const TokenId> prompt() const { return tokens().first(prompt_length_); }
  std::span<const TokenId> generated() const { return tokens().subspan(prompt_length_); }
  // The largest number of new tokens; 0 or less if none can be made.
  int64_t limit() const { return limit_; }

  // Returns which logits extend() will look at next time. Drawing among all tokens, or among those
  // that a constraint allows, needs all logits.
  ops::WantedLogits wanted() const;
  // Chooses the token that follows all tokens so far. Logits that are not finite are an error,
  // because they would win every comparison or spoil the softmax and produce text that looks merely
  // odd. Without `log_sum`, `logits` must hold every logit.
  Result<Step> extend(std::span<const float> logits,
                      const std::optional<ops::LogSum>& log_sum = {});
  // Does the same, but the step has no log-probabilities.
  Result<Step> choose(std::span<const float> logits);

  // Returns a copy that goes on by itself, with the same random numbers to come. Drafts try their
  // proposals on it. The result is null if the constraint has no copy.
  std::unique_ptr<Continuation> preview() const;
  // Appends a token that somebody proposes. Returns false and changes nothing if it is a stop token
  // or if the constraint forbids it among the `vocabulary` tokens.
  bool follow(TokenId token, size_t vocabulary);
  // Returns whether no token may follow.
  bool ended() const { return stop_after_token().has_value(); }

 private:
  Continuation(const Continuation& other, std::unique_ptr<TokenConstraint> constraint);
  bool stops_at(TokenId token) const;
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
