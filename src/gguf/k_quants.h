#pragma once
// The types of GGUF whose blocks hold 256 weights in groups with scales of their own (llama.cpp's
// "k-quants"). Each function makes the weights of one block; see dequantize.h.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/float16.h"

namespace neuronmm::gguf {

inline float half_at(const std::byte* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return f16{bits}.to_float();
}

// Bytes of a block in their order:
void q2_k(const std::byte* block, float* out);  // scales and mins 4+4 bits [16], q [64], d, dmin
void q3_k(const std::byte* block, float* out);  // high bits [32], q [64], scales [12], d
void q4_k(const std::byte* block, float* out);  // d, dmin, scales and mins [12], q [128]
void q5_k(const std::byte* block, float* out);  // d, dmin, scales and mins [12], high [32], q [128]
void q6_k(const std::byte* block, float* out);  // low [128], high [64], scales i8 [16], d

}  // namespace neuronmm::gguf
