#pragma once
// What the engine is asked for, and what it tells the asker. Nothing here knows of HTTP, and of
// text only its tokens.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/sampler.h"
#include "model/token_constraint.h"
#include "model/token_logprobs.h"
#include "text/token_id.h"

namespace neuronmm::serve {

using text::TokenId;

struct Request {
  std::vector<TokenId> prompt;  // at least one
  int64_t choices = 1;          // answers to the one prompt, which is computed once (OpenAI's n)
  model::SamplingOptions sampling;        // answer i has seed + i
  std::optional<int64_t> max_new_tokens;  // none: as many as the context has room for
  int64_t min_new_tokens = 0;             // no stop token is chosen before so many
  std::vector<TokenId> stop_tokens;  // an answer ends before such a token; empty to ignore them
  std::optional<int64_t> logprobs;   // of every token, and of so many likely ones beside it
  // Of the prompt's tokens but the first too, told before the first token of the answer.
  std::optional<int64_t> prompt_logprobs;
  // One per answer, or none at all.
  std::function<std::unique_ptr<model::TokenConstraint>()> make_constraint;
  // Only requests of one salt share the keys and values of a common prefix.
  std::string cache_salt;
  int64_t priority = 0;  // smaller ones are admitted first; equal ones in the order they came
};

struct GeneratedToken {
  TokenId id = 0;
  std::optional<model::TokenLogprobs> logprobs;
};

enum class FinishReason {
  kStop,       // a stop token, a complete constrained answer, or the listener's word
  kLength,     // max_new_tokens, or the context is full
  kCancelled,  // by cancel(), or because the engine was aborted
  kError,      // the message says which
  kLost,       // what computes is gone for good (base/workers_lost.h), as the message says
};

struct PromptUsage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of these, computed for an earlier request
};

// Who asked. All calls come from the engine's thread, one after the other, and must be short: every
// other sequence waits. No call comes after the last on_finish.
class Listener {
 public:
  virtual ~Listener() = default;
  // The prompt's computation begins: the request has left the queue. Not again after a preemption.
  virtual void on_start(const PromptUsage& usage) = 0;
  virtual void on_prompt_logprobs(std::vector<model::TokenLogprobs> logprobs) = 0;
  // The next token of answer `choice`; false ends that answer after it (FinishReason::kStop).
  virtual bool on_token(int64_t choice, const GeneratedToken& token) = 0;
  // Once for every answer. `stop_token` is the one that ended it, where one did.
  virtual void on_finish(int64_t choice, FinishReason reason, std::optional<TokenId> stop_token,
                         const std::string& message) = 0;
};

}  // namespace neuronmm::serve
