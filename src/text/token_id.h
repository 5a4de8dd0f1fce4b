#pragma once
// The number of a token in its tokenizer's vocabulary.

#include <cstdint>

namespace neuronmm::text {

using TokenId = int32_t;

}  // namespace neuronmm::text
