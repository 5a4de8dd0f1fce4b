// This test checks the dtypes' names and sizes, conversions between dtypes, and matrix views.

#include "base/tensor.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "base/float16.h"

namespace neuronmm {
namespace {

constexpr std::array kAllDTypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16,
                                   DType::kI64, DType::kI32, DType::kI8,  DType::kU8};

TEST(DType, NamesRoundTripAndSizesMatchThem) {
  for (const DType dtype : kAllDTypes) {
    const std::string name(dtype_name(dtype));
    ASSERT_TRUE(parse_dtype(name).ok()) << name;
    EXPECT_EQ(*parse_dtype(name), dtype);
    const int64_t bits = std::stoi(name.substr(name.find_first_of("0123456789")));
    EXPECT_EQ(dtype_size_bytes(dtype) * 8, bits) << name;
    EXPECT_EQ(is_float(dtype), name.find('F') != std::string::npos) << name;
  }
}

TEST(DType, UnknownNamesAreErrors) {
  for (const char* name : {"F8_E5M2", "BOOL", "U16", "f32", ""}) {
    const auto dtype = parse_dtype(name);
    ASSERT_FALSE(dtype.ok()) << name;
    EXPECT_NE(dtype.error().message.find(std::string("\"") + name + "\""), std::string::npos);
  }
}

TEST(TensorView, ReportsSizesAndShapeStrings) {
  EXPECT_EQ((TensorView{DType::kF16, {3, 5}, nullptr}.size_bytes()), 30);
  EXPECT_EQ((TensorView{DType::kF32, {}, nullptr}.size()), 1);  // a scalar
  EXPECT_EQ((TensorView{DType::kF32, {4, 0}, nullptr}.size()), 0);
  EXPECT_EQ(shape_string({2048, 8192}), "[2048, 8192]");
  EXPECT_EQ(shape_string({}), "[]");
}

struct FloatFormat {
  DType dtype;
  int precision;  // bits of the significand
};
constexpr std::array kFloatFormats = {FloatFormat{DType::kF64, 53}, FloatFormat{DType::kF32, 24},
                                      FloatFormat{DType::kF16, 11}, FloatFormat{DType::kBF16, 8}};

// Values of magnitude 1 to 2 are rounded with an error of at most half a unit in the last place,
// 2^-precision. Stored values read back unchanged, from unaligned memory and from any element.
TEST(TensorConversion, RoundsWithinHalfAUnitAndReadsBackUnaligned) {
  constexpr uint32_t kSeed = 2;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  std::uniform_real_distribution<double> uniform(1.0, 2.0);
  constexpr int64_t kCount = 257;
  std::vector<double> values(kCount);
  for (double& value : values) value = (random() & 1) ? uniform(random) : -uniform(random);
  for (const FloatFormat& format : kFloatFormats) {
    std::vector<std::byte> bytes(1);  // the tensor starts at an odd address
    append_rounded(format.dtype, values.data(), kCount, bytes);
    ASSERT_EQ(static_cast<int64_t>(bytes.size()), 1 + kCount * dtype_size_bytes(format.dtype));
    const TensorView tensor{format.dtype, {kCount}, bytes.data() + 1};
    std::vector<double> read(kCount);
    to_doubles(tensor, 0, kCount, read.data());
    for (int64_t i = 0; i < kCount; ++i)
      ASSERT_LE(std::abs(read[i] - values[i]), std::ldexp(1.0, -format.precision))
          << dtype_name(format.dtype);
    std::vector<float> tail(7);
    to_floats(tensor, kCount - 7, 7, tail.data());
    for (int64_t i = 0; i < 7; ++i)
      EXPECT_EQ(tail[i], static_cast<float>(read[kCount - 7 + i])) << dtype_name(format.dtype);
    std::vector<std::byte> again(1);
    append_rounded(format.dtype, read.data(), kCount, again);
    EXPECT_EQ(again, bytes) << dtype_name(format.dtype);
  }
}

TEST(TensorConversion, FloatsAndDoublesRoundAlike) {
  constexpr uint32_t kSeed = 3;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  std::normal_distribution<float> normal;
  std::vector<float> floats(1000);
  for (float& value : floats) value = normal(random);
  const std::vector<double> doubles(floats.begin(), floats.end());
  for (const FloatFormat& format : kFloatFormats) {
    std::vector<std::byte> from_floats, from_doubles;
    append_rounded(format.dtype, floats.data(), 1000, from_floats);
    append_rounded(format.dtype, doubles.data(), 1000, from_doubles);
    EXPECT_EQ(from_floats, from_doubles) << dtype_name(format.dtype);
  }
}

TEST(TensorConversion, KnownBytesAreLittleEndian) {
  std::vector<std::byte> bytes;
  const float values[] = {1.0f, -2.0f};
  append_rounded(DType::kBF16, values, 2, bytes);
  const std::vector<std::byte> expected = {std::byte{0x80}, std::byte{0x3F}, std::byte{0x00},
                                           std::byte{0xC0}};
  EXPECT_EQ(bytes, expected);
}

// Rounding fp64 to fp32 and then to bf16 would round this value twice, to 1.
TEST(TensorConversion, NarrowsDoublesOnce) {
  const double just_above_middle = 1.0 + 0x1p-8 + 0x1p-40;
  std::vector<std::byte> bytes;
  append_rounded(DType::kBF16, &just_above_middle, 1, bytes);
  double read = 0.0;
  to_doubles({DType::kBF16, {1}, bytes.data()}, 0, 1, &read);
  EXPECT_EQ(read, 1.0 + 0x1p-7);
}

TEST(Matrix, ViewsShareItsMemoryAndStride) {
  Matrix matrix(4, 3);
  EXPECT_EQ(matrix.row(3)[2], 0.0f);
  matrix.view().row_range(2, 2).row(1)[2] = 5.0f;
  EXPECT_EQ(matrix.row(3)[2], 5.0f);
  const MutableMatrixView columns(matrix.data() + 1, 4, 2, 3);
  columns.row(0)[1] = 7.0f;
  EXPECT_EQ(matrix.row(0)[2], 7.0f);
  const ConstMatrixView read_only = columns;
  EXPECT_EQ(read_only.row(3)[1], 5.0f);
}

}  // namespace
}  // namespace neuronmm
