#pragma once
// The tokens that stand for one byte in SentencePiece's vocabularies: "<0x0A>".

#include <optional>
#include <string>
#include <string_view>

namespace neuronmm::text {

std::string byte_token(char byte);
// Nothing for other tokens. Both cases of the digits count, as in the tokenizers library.
std::optional<char> byte_of_token(std::string_view token);

}  // namespace neuronmm::text
