#include "training/kept_grid.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace neuronmm::training {
namespace {

std::vector<float> drawn_values(size_t count, std::mt19937_64& random) {
  std::vector<float> values(count);
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
  return values;
}

// A rounded weight must round to itself. With 8 bits the scale follows the values, and with fewer
// bits the grid stays.
TEST(KeptGrid, StaysWithFewerThan8Bits) {
  std::mt19937_64 random(12);
  const Shape shape = {3, 150};
  const std::vector<float> values = drawn_values(450, random), moved = drawn_values(450, random);
  const auto view = [&](const std::vector<float>& of) {
    return TensorView{DType::kF32, shape, reinterpret_cast<const std::byte*>(of.data())};
  };
  for (const LowBitFormat& format :
       {LowBitFormat{8}, LowBitFormat{6}, LowBitFormat{4, 16}, LowBitFormat{4, 32}}) {
    SCOPED_TRACE(io::format_text(format));
    const ops::QuantizedWeight nearest = ops::quantize(view(values), format);
    EXPECT_EQ(KeptGrid(view(values), format).round(view(values)).values, nearest.values);
    std::vector<float> rounded(450);
    for (int64_t i = 0; i < 3; ++i) {
      ops::to_floats(nearest.view(), i * 150, 150, rounded.data() + i * 150);
    }
    const KeptGrid kept(nearest.view(), format);
    EXPECT_EQ(kept.round(view(rounded)).values, nearest.values);
    const ops::QuantizedWeight after = kept.round(view(moved));
    const auto scales = [](const ops::QuantizedWeight& weight) {
      return std::as_bytes(std::span(weight.scales));
    };
    EXPECT_EQ(std::ranges::equal(scales(after), scales(nearest)), format.bits < 8);
    EXPECT_EQ(after.multipliers, nearest.multipliers);
    if (format.bits == 8) {
      EXPECT_EQ(after.values, ops::quantize(view(moved)).values);
    }
  }
}

// A code may be another one than the nearest. Its weight then lies as near to the float as the code
// permits, within a factor of two.
TEST(KeptGrid, WeightsBeginNearTheirFloats) {
  constexpr uint64_t kSeed = 13;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  const int64_t rows = 4, columns = 96;
  const auto drawn = [&](float scale) {
    Rows<float> weight(rows, columns);
    const auto values = drawn_values(static_cast<size_t>(rows * columns), random);
    std::ranges::transform(values, weight.data(), [&](float value) { return scale * value; });
    return weight;
  };
  const Rows<float> floats = drawn(1.0F), noise = drawn(0.1F);
  Rows<float> moved(rows, columns);
  for (int64_t i = 0; i < floats.size(); ++i) moved.data()[i] = floats.data()[i] + noise.data()[i];
  for (const LowBitFormat& format : {LowBitFormat{6}, LowBitFormat{4, 16}, LowBitFormat{4, 32}}) {
    SCOPED_TRACE(io::format_text(format));
    const TensorView view = {
        DType::kF32, {rows, columns}, reinterpret_cast<const std::byte*>(floats.data())};
    const KeptGrid grid(view, format);
    const Rows<float> values = grid.rounded(moved), nearest = grid.rounded(floats);
    const Rows<float> near = grid.near_floats(values, floats), reached = grid.rounded(near);
    // Twice as far from its value, a weight that is not at its float has another code.
    Rows<float> farther(rows, columns);
    int64_t between = 0;
    for (int64_t i = 0; i < near.size(); ++i) {
      farther.data()[i] = values.data()[i] + 2.0F * (near.data()[i] - values.data()[i]);
    }
    const Rows<float> beyond = grid.rounded(farther);
    for (int64_t i = 0; i < near.size(); ++i) {
      ASSERT_EQ(reached.data()[i], values.data()[i]);
      if (nearest.data()[i] == values.data()[i]) {
        // The difference and the sum are each rounded once.
        const float size = std::abs(values.data()[i]) + std::abs(floats.data()[i]);
        ASSERT_NEAR(near.data()[i], floats.data()[i], std::numeric_limits<float>::epsilon() * size);
      } else if (near.data()[i] != values.data()[i]) {
        ++between;
        ASSERT_NE(beyond.data()[i], values.data()[i]);
      }
    }
    EXPECT_GT(between, 0);
  }
}

}  // namespace
}  // namespace neuronmm::training
