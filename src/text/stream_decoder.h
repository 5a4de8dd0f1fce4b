#pragma once
// Text as tokens arrive.

#include <optional>
#include <span>
#include <string>

#include "text/decoder.h"
#include "text/token_id.h"
#include "text/utf8_stream.h"

namespace neuronmm::text {

class Tokenizer;

// Never half a UTF-8 character; bytes that can no longer become one are emitted as U+FFFD. The
// pieces join to what Tokenizer::decode gives, with one exception: byte tokens ("<0xE2>") that turn
// out to be no UTF-8 after some of them were characters leave those as they are.
class StreamDecoder {
 public:
  // The tokenizer must outlive this.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens = true);
  // The text goes on behind these tokens, whose own text is not given: the first token is no first
  // one, whose space a SentencePiece decoder would take.
  void continue_after(std::span<const TokenId> ids);
  std::string push(TokenId id);
  std::string finish();  // what is still held back; then a new text may begin

 private:
  void start();

  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::optional<Decoder::Run> run_;  // none where the text is the bytes of the tokens
  Utf8Stream characters_;
};

}  // namespace neuronmm::text
