#pragma once
// The literals of Jinja's expressions.

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace neuronmm::text::jinja {

// How many bytes at the start of `text` are a number; 0: none begins there. `after_dot`: no float
// can begin (x.0.1 are two items).
size_t float_length(std::string_view text, bool after_dot);
size_t integer_length(std::string_view text);

// Python's escapes: what stands between the quotes of a string.
Result<std::string> unescape(std::string_view quoted);

}  // namespace neuronmm::text::jinja
