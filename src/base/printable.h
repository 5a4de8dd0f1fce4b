#pragma once
// Makes names that come from files safe to print on a terminal. Messages, progress bars and tables
// use it.

#include <string>
#include <string_view>

namespace neuronmm {

// Returns `text` with control characters, which could move the cursor or change its colour, written
// in the form \x1b. Bytes that are not UTF-8 are written in the same form. Line ends and tabs stay.
std::string printable(std::string_view text);

}  // namespace neuronmm
