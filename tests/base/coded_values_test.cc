// Tests values that are computed from codes: floats of 8 bits, pieces, and views of rows.

#include "base/coded_values.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "ops/drawn_codes.h"

namespace neuronmm {
namespace {

constexpr uint64_t kSeedOfCodes = 7;

// The table of the specification: 2^-9 is the smallest number, 448 the largest.
TEST(CodedValues, FloatsOf8BitsHaveTheirValues) {
  EXPECT_EQ(float8_value(0x00), 0.0f);
  EXPECT_TRUE(std::signbit(float8_value(0x80)));
  EXPECT_EQ(float8_value(0x01), 0x1p-9f);
  EXPECT_EQ(float8_value(0x07), 0x1.cp-7f);
  EXPECT_EQ(float8_value(0x08), 0x1p-6f);
  EXPECT_EQ(float8_value(0x38), 1.0f);
  EXPECT_EQ(float8_value(0xB9), -1.125f);
  EXPECT_EQ(float8_value(0x7E), 448.0f);
  EXPECT_TRUE(std::isnan(float8_value(0x7F)));
  EXPECT_TRUE(std::isnan(float8_value(0xFF)));
  for (int code = 1; code < 127; ++code) {
    EXPECT_LT(float8_value(static_cast<uint8_t>(code - 1)),
              float8_value(static_cast<uint8_t>(code)));
  }
}

TEST(CodedValues, PiecesHaveTheValuesOfTheFormula) {
  std::mt19937_64 random(kSeedOfCodes);
  const std::pair<CodeKind, DrawnGrid> forms[] = {
      {CodeKind::kInt4, DrawnGrid::kFp32},           {CodeKind::kInt8, DrawnGrid::kFp32},
      {CodeKind::kFloat8, DrawnGrid::kFp32},         {CodeKind::kTable4, DrawnGrid::kFp16},
      {CodeKind::kInt4, DrawnGrid::kNestedMinimums}, {CodeKind::kInt8, DrawnGrid::kFp16Minimums}};
  for (const auto& [kind, grid] : forms) {
    const DrawnCodes codes(kind, 9, 700, 64, true, random, grid);
    const TensorView view = codes.view();
    EXPECT_TRUE(is_float(view.dtype));
    for (int i = 0; i < 200; ++i) {
      const auto first = static_cast<int64_t>(random() % 6300);
      const auto count = static_cast<int64_t>(random() % static_cast<uint64_t>(6301 - first));
      std::vector<float> floats(static_cast<size_t>(count));
      std::vector<double> doubles(static_cast<size_t>(count));
      to_floats(view, first, count, floats.data());
      to_doubles(view, first, count, doubles.data());
      for (int64_t j = 0; j < count; ++j) {
        const float expected = codes.value((first + j) / 700, (first + j) % 700);
        ASSERT_EQ(floats[static_cast<size_t>(j)], expected);
        ASSERT_EQ(doubles[static_cast<size_t>(j)], static_cast<double>(expected));
      }
    }
  }
}

TEST(CodedValues, ViewsOfRowsReadTheirRows) {
  std::mt19937_64 random(kSeedOfCodes);
  const DrawnCodes codes(CodeKind::kInt8, 12, 40, 8, false, random);
  const TensorView rows = codes.view(5, 4);
  EXPECT_EQ(rows.shape, (Shape{4, 40}));
  EXPECT_EQ(rows.size_bytes(), 4 * 40) << "the bytes of the codes";
  EXPECT_EQ(codes.first_row(rows), 5);
  EXPECT_EQ(coded_values(rows), &codes);
  std::vector<std::byte> storage;
  const TensorView copy = without_foreign(rows, DType::kF32, storage);
  EXPECT_EQ(copy.dtype, DType::kF32);
  EXPECT_EQ(coded_values(copy), nullptr);
  std::vector<float> values(160);
  to_floats(copy, 0, 160, values.data());
  for (int64_t i = 0; i < 160; ++i) {
    EXPECT_EQ(values[static_cast<size_t>(i)], codes.value(5 + i / 40, i % 40));
  }
}

}  // namespace
}  // namespace neuronmm
