#pragma once
// Converts numbers of Python to JSON. PythonLiteral uses it.

#include <optional>
#include <string>
#include <string_view>

namespace neuronmm::serve {

// Returns the JSON of a number such as 1_000, .5, 1e-3 or 0x1F. Returns nothing if the word is no
// number, or has hexadecimal, octal or binary digits for more than 64 bits.
std::optional<std::string> number_json(std::string_view word);

}  // namespace neuronmm::serve
