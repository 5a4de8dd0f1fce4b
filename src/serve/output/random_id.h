#pragma once
// Random ids of responses and of their parts, such as tool calls. The writers of responses and
// protocol/prepared_generation.cc use them.

#include <random>
#include <string>
#include <string_view>

namespace neuronmm::serve {

// Returns `prefix` (for example "chatcmpl-" or "call_") followed by `length` random letters and
// digits.
std::string random_id(std::string_view prefix, size_t length, std::mt19937_64& random);

}  // namespace neuronmm::serve
