#include "gguf/grid_quants.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "gguf/grid_tables.h"
#include "gguf/k_quants.h"

namespace neuronmm::gguf {
namespace {

// The values of the vectors' elements.
constexpr std::array<float, 3> kIq2Values = {8, 25, 43};
constexpr std::array<float, 8> kIq3XxsValues = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr std::array<float, 8> kIq3SValues = {1, 3, 5, 7, 9, 11, 13, 15};
constexpr std::array<float, 3> kIq1Values = {-1, 0, 1};
// All elements of a vector of IQ1 are shifted by this number or its negative.
constexpr float kIq1Shift = 0.125f;

constexpr int kSubgroups = 256 / 32;

int nibble_at(const std::byte* bytes, int i) {
  return byte_at(bytes, i / 2) >> (4 * (i % 2)) & 0xF;
}
uint16_t u16_at(const std::byte* bytes) {
  return static_cast<uint16_t>(byte_at(bytes, 0) | byte_at(bytes, 1) << 8);
}
uint32_t u32_at(const std::byte* bytes) {
  uint32_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// Returns eight signs of which seven are stored: the number of negative signs is even.
uint8_t with_eighth_sign(uint32_t seven) {
  return static_cast<uint8_t>(seven | (std::popcount(seven) % 2) << 7);
}

// Writes the elements of a vector, times a scale. Bit i of `signs` negates element i.
template <int kElements, int kBits, size_t kCount>
void write_vector(uint16_t vector, const std::array<float, kCount>& values, float scale,
                  uint8_t signs, float* out) {
  for (int i = 0; i < kElements; ++i) {
    const float value = scale * values[vector >> (kBits * i) & ((1 << kBits) - 1)];
    out[i] = (signs >> i & 1) != 0 ? -value : value;
  }
}
void write_iq2(uint16_t vector, float scale, uint8_t signs, float* out) {
  write_vector<8, 2>(vector, kIq2Values, scale, signs, out);
}

float iq2_scale(float d, uint32_t scale) { return d * (0.5f + static_cast<float>(scale)) * 0.25f; }

void write_iq1(uint16_t vector, float scale, bool negative_shift, float* out) {
  const float shift = negative_shift ? -kIq1Shift : kIq1Shift;
  for (int i = 0; i < 8; ++i) out[i] = scale * (kIq1Values[vector >> (2 * i) & 3] + shift);
}

}  // namespace

void iq2_xxs(const std::byte* block, float* out) {
  const float d = half_at(block);
  for (int group = 0; group < kSubgroups; ++group) {
    const std::byte* const indices = block + 2 + 8 * group;
    const uint32_t signs = u32_at(indices + 4);
    const float scale = iq2_scale(d, signs >> 28);
    for (int i = 0; i < 4; ++i)
      write_iq2(kIq2XxsGrid[byte_at(indices, i)], scale, with_eighth_sign(signs >> (7 * i) & 0x7F),
                out + 32 * group + 8 * i);
  }
}

void iq2_xs(const std::byte* block, float* out) {
  const float d = half_at(block);
  const std::byte* const scales = block + 66;
  for (int i = 0; i < 32; ++i) {
    const uint16_t stored = u16_at(block + 2 + 2 * i);
    write_iq2(kIq2XsGrid[stored & 511],
              iq2_scale(d, static_cast<uint32_t>(nibble_at(scales, i / 2))),
              with_eighth_sign(stored >> 9), out + 8 * i);
  }
}

void iq2_s(const std::byte* block, float* out) {
  const float d = half_at(block);
  const std::byte *const low = block + 2, *const signs = block + 34, *const high = block + 66;
  const std::byte* const scales = block + 74;
  for (int i = 0; i < 32; ++i) {
    const int index = byte_at(low, i) | (byte_at(high, i / 4) >> (2 * (i % 4)) & 3) << 8;
    write_iq2(kIq2SGrid[static_cast<size_t>(index)],
              iq2_scale(d, static_cast<uint32_t>(nibble_at(scales, i / 2))), byte_at(signs, i),
              out + 8 * i);
  }
}

void iq3_xxs(const std::byte* block, float* out) {
  const float d = half_at(block);
  for (int group = 0; group < kSubgroups; ++group) {
    const std::byte* const indices = block + 2 + 8 * group;
    const uint32_t stored = u32_at(block + 66 + 4 * group);
    const float scale = d * (0.5f + static_cast<float>(stored >> 28)) * 0.5f;
    for (int i = 0; i < 8; ++i) {
      const uint8_t signs = with_eighth_sign(stored >> (7 * (i / 2)) & 0x7F);
      write_vector<4, 3>(kIq3XxsGrid[byte_at(indices, i)], kIq3XxsValues, scale,
                         static_cast<uint8_t>(signs >> (4 * (i % 2))), out + 32 * group + 4 * i);
    }
  }
}

void iq3_s(const std::byte* block, float* out) {
  const float d = half_at(block);
  const std::byte *const low = block + 2, *const high = block + 66, *const signs = block + 74;
  const std::byte* const scales = block + 106;
  for (int i = 0; i < 64; ++i) {
    const int index = byte_at(low, i) | (byte_at(high, i / 8) >> (i % 8) & 1) << 8;
    const float scale = d * static_cast<float>(1 + 2 * nibble_at(scales, i / 8));
    write_vector<4, 3>(kIq3SGrid[static_cast<size_t>(index)], kIq3SValues, scale,
                       static_cast<uint8_t>(byte_at(signs, i / 2) >> (4 * (i % 2))), out + 4 * i);
  }
}

void iq1_s(const std::byte* block, float* out) {
  const float d = half_at(block);
  const std::byte *const low = block + 2, *const high = block + 34;
  for (int i = 0; i < 32; ++i) {
    const uint16_t stored = u16_at(high + 2 * (i / 4));
    const int index = byte_at(low, i) | (stored >> (3 * (i % 4)) & 7) << 8;
    write_iq1(kIq1Grid[static_cast<size_t>(index)],
              d * static_cast<float>(2 * (stored >> 12 & 7) + 1), (stored & 0x8000) != 0,
              out + 8 * i);
  }
}

void iq1_m(const std::byte* block, float* out) {
  const std::byte *const low = block, *const high = block + 32, *const scales = block + 48;
  uint16_t bits = 0;
  for (int i = 0; i < 4; ++i)
    bits = static_cast<uint16_t>(bits | (u16_at(scales + 2 * i) & 0xF000) >> (12 - 4 * i));
  const float d = f16{bits}.to_float();
  for (int i = 0; i < 32; ++i) {
    const int stored = nibble_at(high, i), group = i / 2;
    const int index = byte_at(low, i) | (stored & 7) << 8;
    const int scale = u16_at(scales + 2 * (group / 4)) >> (3 * (group % 4)) & 7;
    write_iq1(kIq1Grid[static_cast<size_t>(index)], d * static_cast<float>(2 * scale + 1),
              (stored & 8) != 0, out + 8 * i);
  }
}

}  // namespace neuronmm::gguf
