// This test checks bf16 and binary16 against their definitions, for all bit patterns and between
// neighbouring values.

#include "base/float16.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace neuronmm {
namespace {

// Returns the value of a binary float by its definition, in fp64.
double decode(uint16_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1)
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

// Checks that every pattern widens to its defined value and narrows back to itself (a NaN to some
// NaN).
template <typename Float>
void check_all_patterns(int exponent_bits, int fraction_bits) {
  for (uint32_t pattern = 0; pattern <= 0xFFFF; ++pattern) {
    const auto bits = static_cast<uint16_t>(pattern);
    const double expected = decode(bits, exponent_bits, fraction_bits);
    const float widened = Float{bits}.to_float();
    const uint16_t back = Float::from_float(widened).bits;
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(widened)) << "pattern " << pattern;
      ASSERT_TRUE(std::isnan(decode(back, exponent_bits, fraction_bits))) << "pattern " << pattern;
    } else {
      ASSERT_EQ(static_cast<double>(widened), expected) << "pattern " << pattern;
      ASSERT_EQ(std::signbit(widened), (bits & 0x8000) != 0) << "pattern " << pattern;
      ASSERT_EQ(back, bits) << "pattern " << pattern;
    }
  }
}

TEST(Bf16, EveryPatternIsExact) { check_all_patterns<bf16>(8, 7); }
TEST(F16, EveryPatternIsExact) { check_all_patterns<f16>(5, 10); }

// Checks the rounding between neighbouring finite values: below the middle down, above it up, and
// in the middle to even.
template <typename Float>
void check_rounding(uint16_t largest_finite) {
  for (uint16_t bits = 0; bits < largest_finite; ++bits) {
    const auto above_bits = static_cast<uint16_t>(bits + 1);
    const double low = Float{bits}.to_float(), high = Float{above_bits}.to_float();
    const auto middle = static_cast<float>(0.5 * (low + high));
    // The middle is finer than fp32 holds.
    if (static_cast<double>(middle) != 0.5 * (low + high)) continue;
    const float below = std::nextafter(middle, 0.0f);
    const float above = std::nextafter(middle, std::numeric_limits<float>::infinity());
    const uint16_t even = bits % 2 == 0 ? bits : above_bits;
    ASSERT_EQ(Float::from_float(below).bits, bits);
    ASSERT_EQ(Float::from_float(middle).bits, even);
    ASSERT_EQ(Float::from_float(above).bits, above_bits);
    ASSERT_EQ(Float::from_float(-middle).bits, even | 0x8000);
  }
}

TEST(Bf16, RoundsToNearestEven) { check_rounding<bf16>(0x7F7F); }
TEST(F16, RoundsToNearestEven) { check_rounding<f16>(0x7BFF); }

TEST(Bf16, OverflowsToInfinity) {
  EXPECT_EQ(bf16::from_float(std::numeric_limits<float>::max()).bits, 0x7F80);
  EXPECT_EQ(bf16::from_float(-std::numeric_limits<float>::infinity()).bits, 0xFF80);
}

TEST(F16, OverflowsToInfinity) {
  EXPECT_EQ(f16::from_float(std::nextafter(65520.0f, 0.0f)).bits, 0x7BFF);
  EXPECT_EQ(f16::from_float(65520.0f).bits, 0x7C00);
  EXPECT_EQ(f16::from_float(-1e30f).bits, 0xFC00);
}

// A signalling NaN whose fraction lies in the bits that are dropped must not become infinity.
TEST(Bf16, NanStaysNan) {
  EXPECT_TRUE(std::isnan(bf16::from_float(std::bit_cast<float>(0x7F800001u)).to_float()));
}

#if defined(__FLT16_MAX__)
#if defined(__aarch64__)
using Float16 = __fp16;  // g++ 12 has no _Float16 on this CPU
#else
using Float16 = _Float16;
#endif

TEST(F16, NarrowsLikeTheCompilersFloat16) {
  constexpr uint32_t kSeed = 1;
  std::mt19937 random(kSeed);
  for (int i = 0; i < 2'000'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isnan(value)) continue;
    const auto expected = std::bit_cast<uint16_t>(static_cast<Float16>(value));
    ASSERT_EQ(f16::from_float(value).bits, expected) << "seed " << kSeed << " value " << value;
  }
}
#endif

}  // namespace
}  // namespace neuronmm
