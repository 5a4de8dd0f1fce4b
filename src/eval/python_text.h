#pragma once
// White space as Python's str methods see it, since the rules we follow are written in Python.

#include <string_view>

#include "text/white_space.h"

namespace neuronmm::eval {

// str.isspace(): Unicode's White_Space and the four separators U+001C ... U+001F.
inline bool is_python_space(char32_t c) {
  return text::is_white_space(c) || (c >= 0x1C && c <= 0x1F);
}
inline std::string_view lstrip(std::string_view text) {
  return text::strip_left(text, is_python_space);
}
inline std::string_view rstrip(std::string_view text) {
  return text::strip_right(text, is_python_space);
}
inline std::string_view strip(std::string_view text) { return lstrip(rstrip(text)); }

}  // namespace neuronmm::eval
