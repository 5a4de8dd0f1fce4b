#pragma once
// Tokens of one answer become its text, up to a stop string.

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/stop_strings.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace neuronmm::serve {

using text::TokenId;

struct OutputDetokenizerOptions {
  std::vector<std::string> stop = {};
  bool include_stop = false;           // the stop string is a part of the text
  int64_t min_tokens = 0;              // no stop is looked for in the text of so many
  bool skip_special_tokens = true;     // they have no text,
  std::set<TokenId> kept_tokens = {};  // but for these
};

class OutputDetokenizer {
 public:
  // `tokenizer` must outlive this.
  OutputDetokenizer(const text::Tokenizer& tokenizer, OutputDetokenizerOptions options);
  // The text goes on behind these tokens, of which the last few matter.
  void continue_after(std::span<const TokenId> prompt);
  // What is certain to belong to the text and was not given yet, in whole characters.
  std::string push(TokenId id);
  // The rest: no more tokens come. `stop_token`: the one that ended the answer, which is a part of
  // the text where stops are and it has a text.
  std::string finish(std::optional<TokenId> stop_token = {});
  bool stopped() const { return stops_.found(); }
  const std::string& stop() const { return stops_.stop(); }  // the one that was found

 private:
  std::string decoded(TokenId id);
  std::string before_stop(std::string_view piece);

  const text::Tokenizer* tokenizer_;
  OutputDetokenizerOptions options_;
  text::StreamDecoder decoder_;
  text::StopStrings stops_;
  int64_t tokens_ = 0;
  bool stop_told_ = false;
};

}  // namespace neuronmm::serve
