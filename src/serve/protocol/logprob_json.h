#pragma once
// Log probabilities of tokens in the two shapes that OpenAI has for them.

#include <cstdint>
#include <optional>

#include "model/token_logprobs.h"
#include "serve/protocol/json_body.h"
#include "text/tokenizer.h"

namespace neuronmm::serve {

// {"token", "logprob", "bytes", "top_logprobs": [{"token", "logprob", "bytes"}, ...]}. `bytes` are
// the token's own, which may be a part of a character; in `token` that is U+FFFD.
Json chat_logprob(const text::Tokenizer& tokenizer, const model::TokenLogprobs& logprobs);

// Of text completions: tokens, their log probabilities, the likely ones with theirs, and where in
// the text they begin, in code points of the tokens before.
class TextCompletionLogprobs {
 public:
  // `logprobs`: none for the first token of a prompt.
  void add(const text::Tokenizer& tokenizer, text::TokenId id,
           const std::optional<model::TokenLogprobs>& logprobs);
  bool empty() const { return tokens_.empty(); }
  // {"text_offset", "token_logprobs", "tokens", "top_logprobs"} since the last call.
  Json take();

 private:
  Json tokens_ = Json::array(), token_logprobs_ = Json::array(), top_logprobs_ = Json::array();
  Json text_offset_ = Json::array();
  int64_t offset_ = 0;
};

}  // namespace neuronmm::serve
