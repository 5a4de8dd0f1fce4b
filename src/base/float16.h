#pragma once
// The two 16-bit float formats of checkpoints, bf16 and IEEE binary16, as bit patterns. Widening to
// fp32 is exact; narrowing rounds to nearest even. Weights, scales and messages between processes
// use them.

#include <bit>
#include <cmath>
#include <cstdint>

namespace neuronmm {

struct bf16 {
  uint16_t bits;

  static bf16 from_float(float value) {
    const uint32_t word = std::bit_cast<uint32_t>(value);
    if (std::isnan(value))
      return {static_cast<uint16_t>((word >> 16) | 0x40)};  // the result stays a quiet NaN
    const uint32_t rounding = 0x7FFF + ((word >> 16) & 1);
    return {static_cast<uint16_t>((word + rounding) >> 16)};
  }
  float to_float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

struct f16 {
  uint16_t bits;

  static f16 from_float(float value);
  float to_float() const;
};

}  // namespace neuronmm
