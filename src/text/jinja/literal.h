#pragma once
// Reads the literals of Jinja's expressions, for the lexer.

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace neuronmm::text::jinja {

// Return how many bytes at the start of `text` are a number of this kind, or 0. After a dot no
// float can begin, because x.0.1 are two items.
size_t float_length(std::string_view text, bool after_dot);
size_t integer_length(std::string_view text);

// Replaces Python's escapes in `quoted`, the text between the quotes of a string. A malformed
// escape is an error.
Result<std::string> unescape(std::string_view quoted);

}  // namespace neuronmm::text::jinja
