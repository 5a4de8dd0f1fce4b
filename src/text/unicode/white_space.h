#pragma once
// Finds and removes white space at the ends of UTF-8 text. White space is what Unicode's property
// White_Space says.

#include <optional>
#include <string_view>

namespace neuronmm::text {

bool is_white_space(char32_t code_point);
// Returns what Python's str.isspace() returns: true for White_Space and the separators U+001C to
// U+001F.
bool is_python_space(char32_t code_point);

// Return the first and the last character. An empty text and bytes that are no character give
// nothing.
std::optional<char32_t> first_character(std::string_view text);
std::optional<char32_t> last_character(std::string_view text);

using IsSpace = bool(char32_t);
std::string_view strip_left(std::string_view text, IsSpace is_space = is_white_space);
std::string_view strip_right(std::string_view text, IsSpace is_space = is_white_space);

}  // namespace neuronmm::text
