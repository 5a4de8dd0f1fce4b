#pragma once
// Writes the log probabilities of tokens in the two formats of OpenAI's APIs: one for chats and
// responses, one for text completions. The writers of responses use it.

#include <cstdint>
#include <optional>

#include "model/token_logprobs.h"
#include "serve/requests/json_body.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::serve {

// Returns the format of chats: {"token", "logprob", "bytes", "top_logprobs": [{"token", "logprob",
// "bytes"}, ...]}. "bytes" has the bytes of the token, which may be a part of a character. "token"
// has U+FFFD in place of such a part.
Json chat_logprob(const text::Tokenizer& tokenizer, const model::TokenLogprobs& logprobs);

// Collects the format of text completions: the tokens, their log probabilities, the most likely
// tokens with theirs, and each token's offset. An offset counts the code points of all earlier
// tokens.
class TextCompletionLogprobs {
 public:
  // Adds a token. `logprobs` is empty for the first token of a prompt, which has no probability.
  void add(const text::Tokenizer& tokenizer, text::TokenId id,
           const std::optional<model::TokenLogprobs>& logprobs);
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
