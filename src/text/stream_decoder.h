#pragma once
// Decodes tokens to text while they arrive. The server and the generation commands send its pieces
// to their users.

#include <optional>
#include <span>
#include <string>

#include "text/tokenizer/decoder.h"
#include "text/tokenizer/token_id.h"
#include "text/unicode/utf8_stream.h"

namespace neuronmm::text {

class Tokenizer;

// Never emits half a UTF-8 character. Bytes that cannot become a character are emitted as U+FFFD.
// The pieces join to the result of Tokenizer::decode, with one exception. If byte tokens ("<0xE2>")
// turn out not to be UTF-8, the stream keeps the characters that it has emitted of them.
class StreamDecoder {
 public:
  // The tokenizer must outlive this object.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens = true);
  // Continues a text that begins with these tokens, without emitting their text. The next token
  // then does not count as the first one, from which a SentencePiece decoder removes the space.
  void continue_after(std::span<const TokenId> ids);
  // Returns the text that is certain after this token, which may be empty.
  std::string push(TokenId id);
  std::string finish();  // Returns the text that is held back. A new text may begin after it.

 private:
  void start();

  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  // Empty if the text is the bytes of the tokens.
  std::optional<Decoder::Run> run_;
  Utf8Stream characters_;
};

}  // namespace neuronmm::text
