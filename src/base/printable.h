#pragma once
// Names from files as they may be shown on a terminal.

#include <string>
#include <string_view>

namespace neuronmm {

// Control characters, which could move the cursor or change its colour, become "\\x1b"; so do bytes
// that are not UTF-8. Line ends and tabs stay.
std::string printable(std::string_view text);

}  // namespace neuronmm
