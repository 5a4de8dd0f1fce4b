#pragma once
// The types of GGUF whose blocks hold 256 weights in groups with their own scales (llama.cpp's
// "k-quants"). Each function computes the weights of one block; dequantize.cc is the caller.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/float16.h"

namespace neuronmm::gguf {

inline uint8_t byte_at(const std::byte* bytes, int i) { return std::to_integer<uint8_t>(bytes[i]); }
// Reads a little-endian fp16 value.
inline float half_at(const std::byte* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return f16{bits}.to_float();
}

// Unpacks eight scales and eight mins of six bits from twelve bytes:
//   The low six bits of the first eight bytes are the first four scales, then the first four mins.
//   The low four bits of the other scales and mins are in the last four bytes: scales in the low
//   halves, mins in the high halves.
//   The high two bits of the other scales and mins are the high two bits of the first eight bytes.
struct ScalesAndMins {
  explicit ScalesAndMins(const std::byte* packed) {
    const auto at = [&](int i) { return std::to_integer<int>(packed[i]); };
    for (int i = 0; i < 4; ++i) {
      scale[i] = at(i) & 0x3F;
      min[i] = at(4 + i) & 0x3F;
      scale[4 + i] = (at(8 + i) & 0xF) | (at(i) >> 2 & 0x30);
      min[4 + i] = at(8 + i) >> 4 | (at(4 + i) >> 2 & 0x30);
    }
  }
  int scale[8], min[8];
};

// The comments list the parts of a block in their order. Numbers in brackets are sizes in bytes;
// d and dmin are fp16 values.

// The block is scales and mins of 4+4 bits [16], q [64], d, dmin.
void q2_k(const std::byte* block, float* out);

// The block is high bits [32], q [64], scales [12], d.
void q3_k(const std::byte* block, float* out);

// The block is d, dmin, scales and mins [12], q [128].
void q4_k(const std::byte* block, float* out);

// The block is d, dmin, scales and mins [12], high bits [32], q [128].
void q5_k(const std::byte* block, float* out);

// The block is low bits [128], high bits [64], int8 scales [16], d.
void q6_k(const std::byte* block, float* out);

}  // namespace neuronmm::gguf
