#include "gguf/k_quants.h"

namespace neuronmm::gguf {
namespace {

constexpr int kWeights = 256;  // QK_K of llama.cpp.

// Returns one of sixteen scales of six bits in twelve bytes. The stored number is the scale plus
// 32. Its low four bits are in the halves of the first eight bytes (low halves first). Its high two
// bits are in the last four bytes.
float q3_scale(const std::byte* packed, int i) {
  const int low = byte_at(packed, i % 8) >> (4 * (i / 8)) & 0xF;
  const int high = byte_at(packed, 8 + i % 4) >> (2 * (i / 4)) & 3;
  return static_cast<float>((low | high << 4) - 32);
}

}  // namespace

void q2_k(const std::byte* block, float* out) {
  const std::byte *const scales = block, *const bits = block + 16;
  const float d = half_at(block + 80), dmin = half_at(block + 82);
  for (int group = 0; group < 16; ++group) {
    const float scale = d * static_cast<float>(byte_at(scales, group) & 0xF);
    const float min = dmin * static_cast<float>(byte_at(scales, group) >> 4);
    // A run of 32 bytes holds two bits for each of four runs of 32 weights. A run has two groups.
    const std::byte* const run = bits + group / 8 * 32 + group % 2 * 16;
    const int shift = 2 * (group / 2 % 4);
    for (int i = 0; i < 16; ++i)
      out[group * 16 + i] = scale * static_cast<float>(byte_at(run, i) >> shift & 3) - min;
  }
}

void q3_k(const std::byte* block, float* out) {
  const std::byte *const high = block, *const bits = block + 32, *const scales = block + 96;
  const float d = half_at(block + 108);
  for (int group = 0; group < 16; ++group) {
    const float scale = d * q3_scale(scales, group);
    const std::byte* const run = bits + group / 8 * 32 + group % 2 * 16;
    const std::byte* const third = high + group % 2 * 16;
    const int shift = 2 * (group / 2 % 4);
    for (int i = 0; i < 16; ++i) {
      // The third bit is stored inverted: if it is not set, 4 is subtracted.
      const int offset = (byte_at(third, i) >> (group / 2) & 1) != 0 ? 0 : 4;
      out[group * 16 + i] = scale * static_cast<float>((byte_at(run, i) >> shift & 3) - offset);
    }
  }
}

void q4_k(const std::byte* block, float* out) {
  const float d = half_at(block), dmin = half_at(block + 2);
  const ScalesAndMins packed(block + 4);
  for (int group = 0; group < kWeights / 32; ++group) {
    const float scale = d * static_cast<float>(packed.scale[group]);
    const float min = dmin * static_cast<float>(packed.min[group]);
    const std::byte* const bits = block + 16 + group / 2 * 32;
    const int shift = 4 * (group % 2);
    for (int i = 0; i < 32; ++i)
      out[group * 32 + i] = scale * static_cast<float>(byte_at(bits, i) >> shift & 0xF) - min;
  }
}

void q5_k(const std::byte* block, float* out) {
  const float d = half_at(block), dmin = half_at(block + 2);
  const ScalesAndMins packed(block + 4);
  const std::byte* const high = block + 16;
  for (int group = 0; group < kWeights / 32; ++group) {
    const float scale = d * static_cast<float>(packed.scale[group]);
    const float min = dmin * static_cast<float>(packed.min[group]);
    const std::byte* const bits = block + 48 + group / 2 * 32;
    const int shift = 4 * (group % 2);
    for (int i = 0; i < 32; ++i) {
      const int q = (byte_at(bits, i) >> shift & 0xF) | (byte_at(high, i) >> group & 1) << 4;
      out[group * 32 + i] = scale * static_cast<float>(q) - min;
    }
  }
}

void q6_k(const std::byte* block, float* out) {
  const std::byte *const low = block, *const high = block + 128, *const scales = block + 192;
  const float d = half_at(block + 208);
  for (int run = 0; run < kWeights / 32; ++run) {
    // A half of the block has its low bits in 64 bytes, whose low four bits are runs 0 and 1. The
    // high bits of its four runs are in 32 bytes.
    const std::byte* const nibbles = low + run / 4 * 64 + run % 2 * 32;
    const std::byte* const pairs = high + run / 4 * 32;
    const int nibble_shift = 4 * (run / 2 % 2), pair_shift = 2 * (run % 4);
    for (int i = 0; i < 32; ++i) {
      const int q =
          (byte_at(nibbles, i) >> nibble_shift & 0xF) | (byte_at(pairs, i) >> pair_shift & 3) << 4;
      const float scale =
          d * static_cast<float>(static_cast<int8_t>(byte_at(scales, run * 2 + i / 16)));
      out[run * 32 + i] = scale * static_cast<float>(q - 32);
    }
  }
}

}  // namespace neuronmm::gguf
