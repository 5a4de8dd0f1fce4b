#pragma once
// Turns the tokens of one answer into its text and stops at the client's stop strings. ChatOutput
// and TextCompletionWriter use it.

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/stop_strings.h"
#include "text/stream_decoder.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::serve {

using text::TokenId;

// Settings that say which tokens become text and where the text stops.
struct OutputDetokenizerOptions {
  std::vector<std::string> stop = {};
  bool include_stop = false;           // whether the stop string is part of the text
  int64_t min_tokens = 0;              // stop strings are ignored in this many first tokens
  bool skip_special_tokens = true;     // special tokens have no text,
  std::set<TokenId> kept_tokens = {};  // except these
};

// The state of one answer.
class OutputDetokenizer {
 public:
  // `tokenizer` must outlive this object.
  OutputDetokenizer(const text::Tokenizer& tokenizer, OutputDetokenizerOptions options);
  // Begins the text as a continuation of `prompt`, so that a character that is split between prompt
  // and answer is decoded. Only the last few tokens matter.
  void continue_after(std::span<const TokenId> prompt);
  // Adds a token. Returns the new text that certainly belongs to the answer, in whole characters.
  std::string push(TokenId id);
  // Returns the rest of the text, after the last token. `stop_token` is the token that ended the
  // answer. If `include_stop` is set and the token has a text, the text is included.
  std::string finish(std::optional<TokenId> stop_token = {});
  bool stopped() const { return stops_.found(); }
  const std::string& stop() const { return stops_.stop(); }  // the stop string that was found

 private:
  std::string decoded(TokenId id);
  std::string before_stop(std::string_view piece);

  const text::Tokenizer* tokenizer_;
  OutputDetokenizerOptions options_;
  text::StreamDecoder decoder_;
  text::StopStrings stops_;
  int64_t tokens_ = 0;
  bool stop_sent_ = false;
};

}  // namespace neuronmm::serve
