#pragma once
// What answers and their parts are called.

#include <random>
#include <string>
#include <string_view>

namespace neuronmm::serve {

// Letters and digits behind a prefix: "chatcmpl-", "call_".
std::string random_id(std::string_view prefix, size_t length, std::mt19937_64& random);

}  // namespace neuronmm::serve
