#pragma once
// Names methods of rounding whose weights are not read, and says what to do with their folders.

#include <string>
#include <string_view>

namespace neuronmm::io {

// Returns what a message says about a quant_method that is not read: what was expected, what was
// found, and how to get weights that are read.
std::string refusal_of_method(std::string_view quant_method);

}  // namespace neuronmm::io
