#pragma once
// Letter case of Unicode text, for the tasks of src/eval that copy Python's text functions.

#include <string>
#include <string_view>

namespace neuronmm::text {

// Puts the first character into title case and all others into lower case, like Python's
// str.capitalize(). Simple mappings from one character to one are used. Python also knows a few
// special ones ("ß" at the start, "İ", "Σ" at the end of a word), which are missing here. Bytes
// that are not UTF-8 stay as they are.
std::string capitalize(std::string_view text);

}  // namespace neuronmm::text
