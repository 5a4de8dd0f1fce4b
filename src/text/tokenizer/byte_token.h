#pragma once
// Converts between bytes and the tokens that stand for one byte in SentencePiece's vocabularies,
// such as "<0x0A>". A tokenizer with byte_fallback encodes a character that its vocabulary lacks by
// the tokens of its bytes.
//
// The BPE model (alphabet.cc, bpe_model_json.cc) finds the byte tokens of a vocabulary with
// byte_token(). Decoding (decoder_steps.cc, tokenizer.cc) turns tokens into bytes with
// byte_of_token(). Nothing here can fail.

#include <optional>
#include <string>
#include <string_view>

namespace neuronmm::text {

// Returns the text of the byte's token, with two capital hexadecimal digits. A vocabulary need not
// have this token.
std::string byte_token(char byte);
// Returns the byte of such a token, and nothing for a token of any other form. Hexadecimal digits
// of either case count, as in the tokenizers library.
std::optional<char> byte_of_token(std::string_view token);

}  // namespace neuronmm::text
