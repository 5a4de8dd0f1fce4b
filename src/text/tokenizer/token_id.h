#pragma once
// The number of a token in the vocabulary of its tokenizer.

#include <cstdint>

namespace neuronmm::text {

using TokenId = int32_t;

}  // namespace neuronmm::text
