#pragma once
// Letter case of Unicode text.

#include <cstdint>
#include <string>
#include <string_view>

namespace neuronmm::text {

// Python's str.capitalize(): the first character in title case, all others in lower case. `text` is
// UTF-8. Simple case mappings (one character to one): Python also has the few special ones ("ß" at
// the start, "İ", "Σ" at the end of a word).
std::string capitalize(std::string_view text);

// Characters in UTF-8 text, as Python's len() counts them.
int64_t count_code_points(std::string_view text);

}  // namespace neuronmm::text
