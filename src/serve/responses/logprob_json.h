#pragma once
// Writes the log probabilities of tokens in the two formats of OpenAI's APIs: one for chats and
// responses, one for text completions. The writers of all APIs with log probabilities use it.
//
// Nothing here can fail. An id outside the vocabulary has an empty text.

#include <cstdint>
#include <optional>

#include "model/token_logprobs.h"
#include "serve/requests/json_body.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::serve {

// Returns the log probability, but -9999 for a probability of 0, because JSON has no infinity.
double finite_logprob(double logprob);

// Returns the format of chats: {"token", "logprob", "bytes", "top_logprobs": [{"token", "logprob",
// "bytes"}, ...]}. "bytes" has the bytes of the token, which may be a part of a character. "token"
// has U+FFFD in place of such a part.
Json chat_logprob(const text::Tokenizer& tokenizer, const model::TokenLogprobs& logprobs);

// Collects the format of text completions: the tokens, their log probabilities, the most likely
// tokens with theirs, and each token's offset. An offset counts the code points of all earlier
// tokens, including those that take() has returned. The most likely tokens are an object whose keys
// are texts of tokens. If two tokens have the same text, only the more likely one is in it. The
// token itself is added if its text is not among the keys.
class TextCompletionLogprobs {
 public:
  // Adds a token. `logprobs` is empty for the first token of a prompt, which has no probability.
  void add(const text::Tokenizer& tokenizer, text::TokenId id,
           const std::optional<model::TokenLogprobs>& logprobs);
  // Returns whether no token was added since the last take().
  bool empty() const { return tokens_.empty(); }
  // Returns {"text_offset", "token_logprobs", "tokens", "top_logprobs"} of the tokens since the
  // last call.
  Json take();

 private:
  Json tokens_ = Json::array(), token_logprobs_ = Json::array(), top_logprobs_ = Json::array();
  Json text_offset_ = Json::array();
  int64_t offset_ = 0;
};

}  // namespace neuronmm::serve
