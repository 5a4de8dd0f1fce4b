#pragma once
// The tokens that stand for one byte in SentencePiece's vocabularies, such as "<0x0A>".

#include <optional>
#include <string>
#include <string_view>

namespace neuronmm::text {

// Returns the name of the byte's token, with capital hexadecimal digits.
std::string byte_token(char byte);
// Returns the byte of such a token, and nothing for other tokens. Hexadecimal digits of either case
// count, as in the tokenizers library.
std::optional<char> byte_of_token(std::string_view token);

}  // namespace neuronmm::text
