// Tests of rounding to 8 bits against the definition, computed in fp64.

#include "ops/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "owned_tensor.h"

namespace neuronmm::ops {
namespace {

constexpr uint64_t kSeed = 20250711;
constexpr int64_t kRows = 5;

double scale_of(const QuantizedWeight& weight, int64_t i, int64_t group) {
  return static_cast<double>(
      weight.scales[static_cast<size_t>(i * weight.groups() + group)].to_float());
}

// Returns the nearest value with eight significant bits. Ties go to the even one.
double nearest_bf16(double value) {
  if (value == 0) return 0;
  const double unit = std::ldexp(1.0, std::ilogb(value) - 7);
  return std::nearbyint(value / unit) * unit;
}

void expect_defined(const QuantizedWeight& weight, const std::vector<float>& values) {
  for (int64_t i = 0; i < weight.rows; ++i) {
    for (int64_t first = 0; first < weight.columns; first += kQuantGroup) {
      const int64_t last = std::min(weight.columns, first + kQuantGroup);
      double largest = 0;
      for (int64_t j = first; j < last; ++j) {
        largest = std::max(largest, std::abs(double{values[i * weight.columns + j]}));
      }
      const double scale = scale_of(weight, i, first / kQuantGroup);
      // The quotient is rounded to fp32 before bf16, as in quantize().
      ASSERT_EQ(scale, nearest_bf16(static_cast<float>(largest / 127)));
      for (int64_t j = first; j < last; ++j) {
        const double value = values[i * weight.columns + j];
        const int stored = weight.values[static_cast<size_t>(i * weight.columns + j)];
        ASSERT_LE(std::abs(stored), 127);
        // The bound is half a step, and a little more if the scale was rounded down (quantize.h).
        ASSERT_LE(std::abs(value - scale * stored), scale * 0.5 * 1.004) << i << ", " << j;
      }
    }
  }
}

TEST(Quantize, IsTheNearestMultipleOfTheScaleForEveryShape) {
  std::mt19937_64 random(kSeed);
  for (const int64_t columns : {1, 2, 127, 128, 129, 256, 300}) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", columns " << columns);
    const std::vector<float> values = random_values(kRows * columns, random, 0.02f);
    const OwnedTensor tensor(DType::kF32, {kRows, columns}, values);
    const QuantizedWeight weight = quantize(tensor.view());
    EXPECT_EQ(weight.groups(), (columns + 127) / 128);
    expect_defined(weight, values);

    const std::vector<double> doubles(values.begin(), values.end());
    const QuantizedWeight of_doubles = quantize(doubles.data(), kRows, columns);
    EXPECT_EQ(of_doubles.values, weight.values);
  }
}

// A quantized model that was written as fp32 must not change when it is rounded again.
TEST(Quantize, RoundingRoundedValuesAgainChangesNothing) {
  std::mt19937_64 random(kSeed);
  const int64_t rows = 200, columns = 300;
  const OwnedTensor tensor(DType::kF32, {rows, columns}, random_values(rows * columns, random));
  const QuantizedWeight once = quantize(tensor.view());
  std::vector<double> values(static_cast<size_t>(rows * columns));
  std::vector<float> floats(values.size());
  for (int64_t i = 0; i < rows; ++i) {
    to_doubles(once.view(), i * columns, columns, values.data() + i * columns);
    to_floats(once.view(), i * columns, columns, floats.data() + i * columns);
  }
  EXPECT_EQ(std::vector<double>(floats.begin(), floats.end()), values);  // fp32 holds them
  const QuantizedWeight twice = quantize(values.data(), rows, columns);
  EXPECT_EQ(twice.values, once.values);
  for (size_t i = 0; i < once.scales.size(); ++i) {
    EXPECT_EQ(twice.scales[i].bits, once.scales[i].bits);
  }
}

TEST(Quantize, ZerosStayAndNanAndInfinityShowInTheScale) {
  std::vector<double> values(4 * 256);
  values[256 + 3] = std::numeric_limits<double>::quiet_NaN();
  values[256 + 4] = 1.0;
  values[2 * 256 + 200] = -std::numeric_limits<double>::infinity();
  values[3 * 256] = 1e60;  // beyond bf16
  const QuantizedWeight weight = quantize(values.data(), 4, 256);
  for (int64_t j = 0; j < 256; ++j) EXPECT_EQ(weight.values[static_cast<size_t>(j)], 0);
  EXPECT_EQ(scale_of(weight, 0, 0), 0);
  EXPECT_FALSE(std::isfinite(scale_of(weight, 1, 0)));
  EXPECT_EQ(scale_of(weight, 1, 1), 0);
  EXPECT_EQ(scale_of(weight, 2, 0), 0);
  EXPECT_FALSE(std::isfinite(scale_of(weight, 2, 1)));
  EXPECT_FALSE(std::isfinite(scale_of(weight, 3, 0)));
}

// fp32 weights have kernels of their own (ops/round_to_bytes.h). Values halfway between two bytes
// and close to it are the ones that fp32 arithmetic could round otherwise.
TEST(Quantize, FloatsBecomeTheBytesOfTheSameDoubles) {
  std::mt19937_64 random(kSeed);
  for (const float size : {1e-30f, 0.02f, 3e30f, 1e-39f}) {
    for (const int64_t columns : {1, 15, 128, 131, 384}) {
      SCOPED_TRACE(testing::Message() << size << ", columns " << columns);
      std::vector<float> values = random_values(kRows * columns, random, size);
      for (int64_t i = 0; i < kRows; ++i) {
        float* const row = values.data() + i * columns;
        const float largest = *std::max_element(row, row + std::min<int64_t>(columns, 128));
        const float step = bf16::from_float(std::abs(largest) / 127).to_float();
        for (int64_t j = 1; j < columns; j += 2) {
          const float half = (static_cast<float>(j % 100) + 0.5f) * step;
          const float near[] = {half, std::nextafter(half, 0.0f), std::nextafter(half, 1e38f)};
          if (half < largest) row[j] = (j % 4 == 1 ? 1.0f : -1.0f) * near[j % 3];
        }
      }
      const std::vector<double> doubles(values.begin(), values.end());
      const QuantizedWeight of_floats =
          quantize(OwnedTensor(DType::kF32, {kRows, columns}, values).view());
      const QuantizedWeight of_doubles = quantize(doubles.data(), kRows, columns);
      EXPECT_EQ(of_floats.values, of_doubles.values);
      for (size_t i = 0; i < of_floats.scales.size(); ++i)
        EXPECT_EQ(of_floats.scales[i].bits, of_doubles.scales[i].bits);
    }
  }
}

}  // namespace
}  // namespace neuronmm::ops
