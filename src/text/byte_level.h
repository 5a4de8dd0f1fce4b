#pragma once
// GPT-2's printable spelling of bytes: vocabularies write a space as "Ġ". Printable Latin-1 bytes
// stand for themselves, the other 68 are U+0100, U+0101, ... in order of their value.

#include <optional>
#include <string>
#include <string_view>

namespace neuronmm::text {

// The bytes that `spelling` stands for, or nothing when a character of it stands for no byte.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);

char32_t character_of_byte(char byte);

}  // namespace neuronmm::text
