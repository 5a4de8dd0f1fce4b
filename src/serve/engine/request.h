#pragma once
// The request that a caller hands to the engine (engine.h), and the listener through which the
// engine reports tokens and the end of each answer. HTTP is unknown to the engine, and text reaches
// it only as tokens: serve/http and serve/protocol translate.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/sampler.h"
#include "model/token_constraint.h"
#include "model/token_logprobs.h"
#include "serve/engine/pooled_embedding.h"
#include "text/tokenizer/token_id.h"

namespace neuronmm::serve {

using text::TokenId;

// The largest number of answers to one prompt. Documented: the limit of OpenAI's API.
inline constexpr int64_t kMostChoices = 128;
// The largest bias of a token, up or down. Assumed: no logit is as large, so that -kLargestBias
// forbids the token.
inline constexpr double kLargestBias = 1e9;

// A prompt and how to answer it. find_refusal() (admission.h) checks the values.
struct Request {
  std::vector<TokenId> prompt;  // at least one token
  // The number of answers to the prompt, which is computed only once (OpenAI's n), from 1 to
  // kMostChoices.
  int64_t choices = 1;
  model::SamplingOptions sampling;  // answer i is sampled with seed + i
  // Without a value, an answer may fill the rest of the context.
  std::optional<int64_t> max_new_tokens;
  // Stop tokens cannot be chosen before the answer has this many tokens.
  int64_t min_new_tokens = 0;
  // An answer ends before such a token. If the list is empty, no token ends an answer.
  std::vector<TokenId> stop_tokens;
  // With a value, every token comes with its log-probability and those of this many of the most
  // likely tokens.
  std::optional<int64_t> logprobs;
  // Asks for the same about every token of the prompt except the first. The listener gets them
  // before the first token of the answer.
  std::optional<int64_t> prompt_logprobs;
  // Asks for the prompt's embedding in place of an answer. The request has one choice, and fields
  // about answers have no effect. The listener gets the embedding before the end.
  std::optional<Pooling> embedding;
  // Makes the constraint of one answer and is called once per answer. An empty function means that
  // answers are not constrained.
  std::function<std::unique_ptr<model::TokenConstraint>()> make_constraint;
  // Requests share the keys and values of a common prefix only if their salts are equal.
  std::string cache_salt;
  // Requests with a smaller value are admitted first. Among equal ones every client gets its share,
  // and a client's own requests are admitted in the order of their arrival.
  int64_t priority = 0;
  std::string client;  // the name of the client, which any text may be
};

struct GeneratedToken {
  TokenId id = 0;
  std::optional<model::TokenLogprobs> logprobs;
};

enum class FinishReason {
  kStop,       // a stop token came, a constrained answer is complete, or the listener ended it
  kLength,     // max_new_tokens is reached, or the context or the key-value memory is full
  kCancelled,  // cancel() was called, or the engine was aborted
  kError,      // the message says what failed
  kNoMemory,   // the system had no memory for this answer
  kLost,       // helper processes are gone for good (base/workers_lost.h); the message names them
};

struct PromptUsage {
  int64_t prompt_tokens = 0;
  // The number of prompt tokens whose keys and values an earlier request has computed.
  int64_t cached_tokens = 0;
};

// The receiver of a request's answers. All calls come from the engine's thread, one after the
// other. They must be short, because every other sequence waits for them. No call follows the last
// on_finish.
class Listener {
 public:
  virtual ~Listener() = default;
  // Reports that the request has left the queue and its prompt is about to be computed. The call is
  // not repeated after a preemption.
  virtual void on_start(const PromptUsage& usage) = 0;
  // Reports the prompt's log-probabilities if the request asked for them. Entry i is about prompt
  // token i + 1.
  virtual void on_prompt_logprobs(std::vector<model::TokenLogprobs> logprobs) = 0;
  // Reports the prompt's embedding [hidden_size], which is not normalized, if the request asked for
  // it. The end follows with FinishReason::kStop.
  virtual void on_embedding(std::vector<float> /*embedding*/) {}
  // Reports the next token of answer `choice`. Returns false to end the answer after this token
  // with FinishReason::kStop.
  virtual bool on_token(int64_t choice, const GeneratedToken& token) = 0;
  // Reports the end of answer `choice`, once for every answer. `stop_token` is the stop token that
  // ended the answer, if there was one.
  virtual void on_finish(int64_t choice, FinishReason reason, std::optional<TokenId> stop_token,
                         const std::string& message) = 0;
};

}  // namespace neuronmm::serve
