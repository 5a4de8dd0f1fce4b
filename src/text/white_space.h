#pragma once
// White space at the ends of UTF-8 text, as Unicode's White_Space property has it.

#include <optional>
#include <string_view>

namespace neuronmm::text {

bool is_white_space(char32_t code_point);
// str.isspace() of Python: White_Space and the four separators U+001C ... U+001F.
bool is_python_space(char32_t code_point);

// Nothing for an empty text and for bytes that are no character.
std::optional<char32_t> first_character(std::string_view text);
std::optional<char32_t> last_character(std::string_view text);

using IsSpace = bool(char32_t);
std::string_view strip_left(std::string_view text, IsSpace is_space = is_white_space);
std::string_view strip_right(std::string_view text, IsSpace is_space = is_white_space);

}  // namespace neuronmm::text
