#pragma once
// GPT-2's printable spelling of bytes, in which vocabularies write a space as "Ġ". Printable
// Latin-1 bytes stand for themselves. The other 68 bytes are spelled U+0100, U+0101, ... in order
// of value.

#include <optional>
#include <string>
#include <string_view>

namespace neuronmm::text {

// Returns the bytes that `spelling` stands for. Returns nothing if one of its characters stands for
// no byte. The second function writes the bytes to `bytes` and returns false for nothing.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);
bool bytes_of_spelling(std::string_view spelling, std::string& bytes);

// Returns the character that spells the byte.
char32_t character_of_byte(char byte);

}  // namespace neuronmm::text
