#pragma once
// Stripping of white space as Python's str methods do it, because the rules that this folder
// follows are written in Python.

#include <string_view>

#include "text/unicode/white_space.h"

namespace neuronmm::eval {

inline std::string_view lstrip(std::string_view s) {
  return text::strip_left(s, text::is_python_space);
}
inline std::string_view rstrip(std::string_view s) {
  return text::strip_right(s, text::is_python_space);
}
inline std::string_view strip(std::string_view s) { return lstrip(rstrip(s)); }

}  // namespace neuronmm::eval
