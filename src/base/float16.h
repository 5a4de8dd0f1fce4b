#pragma once
// The two 16-bit float formats of checkpoints, bf16 and IEEE binary16 (f16), as bit patterns.
// Widening to fp32 is exact, also for subnormals, infinities and NaN. Narrowing rounds to nearest
// even. A value beyond the largest finite one becomes an infinity, and NaN stays NaN. Nothing can
// fail. Both formats occur in model files. Scales, caches of keys and values, and messages between
// processes use bf16.

#include <bit>
#include <cmath>
#include <cstdint>

namespace neuronmm {

// A bf16 number: the upper half of an fp32 number, with the same range.
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

// An IEEE binary16 number. Its largest finite value is 65504; values from 65520 on round to
// infinity.
struct f16 {
  uint16_t bits;

  static f16 from_float(float value);
  float to_float() const;
};

}  // namespace neuronmm
