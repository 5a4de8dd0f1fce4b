#pragma once
// The types of GGUF whose weights are -d, 0 or d. Each function computes the 256 weights of one
// block; dequantize.cc is the caller.

#include <cstddef>

namespace neuronmm::gguf {

// The block is bytes of five digits to base 3 [48], bytes of four digits [4], d [2].
void tq1_0(const std::byte* block, float* out);

// The block is weights of two bits [64], d [2].
void tq2_0(const std::byte* block, float* out);

}  // namespace neuronmm::gguf
