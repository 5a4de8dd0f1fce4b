#include "training/kept_grid.h"

#include <algorithm>
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

}  // namespace
}  // namespace neuronmm::training
