// Tests values that are computed from codes: floats of 8 bits, rows, pieces, and copies in fp32.

#include "base/coded_values.h"

#include <bit>
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
  for (const CodeKind kind : {CodeKind::kInt4, CodeKind::kInt8, CodeKind::kFloat8}) {
    const DrawnCodes codes(kind, 9, 700, 64, true, random);
    const TensorView view = view_of(codes);
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

TEST(CodedValues, RowsAndCopiesAreThoseOfTheMatrix) {
  std::mt19937_64 random(kSeedOfCodes);
  const DrawnCodes codes(CodeKind::kInt8, 12, 40, 8, false, random);
  const TensorView rows = rows_of(rows_of(view_of(codes), 3, 8), 2, 4);
  EXPECT_EQ(rows.shape, (Shape{4, 40}));
  EXPECT_EQ(rows.size_bytes(), 4 * 40) << "the bytes of the codes";
  std::vector<float> storage;
  const TensorView copy = in_memory(rows, storage);
  EXPECT_EQ(copy.dtype, DType::kF32);
  ASSERT_EQ(storage.size(), 160u);
  for (int64_t i = 0; i < 160; ++i) {
    EXPECT_EQ(storage[static_cast<size_t>(i)], codes.value(5 + i / 40, i % 40));
  }
  EXPECT_EQ(in_memory(copy, storage).data, copy.data) << "no copy of what is in memory";
}

// A file that is written with the tensor's dtype has the header of fp32.
TEST(CodedValues, TheDtypeHasTheNameAndSizeOfFp32) {
  EXPECT_EQ(dtype_name(DType::kCoded), "F32");
  EXPECT_EQ(parse_dtype("F32").value(), DType::kF32);
  EXPECT_EQ((TensorView{DType::kCoded, {3, 5}}.size_bytes()), 60);
  EXPECT_EQ(replacing_dtype(DType::kCoded), DType::kBF16);
  EXPECT_EQ(replacing_dtype(DType::kF16), DType::kF16);
}

}  // namespace
}  // namespace neuronmm
