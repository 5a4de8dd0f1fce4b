// This test compares products with coded weights and with the same values in floats. The results
// must have the same bits for every instruction set, number of rows and shape. The values are fp32
// or, if the CPU has products of bf16, they are rounded to bf16. The test linear_test.cc checks
// that the results of floats are right. Scales of fp32 may give other bits in bf16, and their
// products are compared with sums in fp64.

#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "cpu/on_every_target.h"
#include "ops/drawn_codes.h"
#include "ops/owned_tensor.h"

namespace neuronmm::cpu {
namespace {

constexpr uint64_t kCodedSeed = 31;

struct CodesAndGrid {
  CodeKind kind;
  DrawnGrid grid;
  bool same_bits_in_bf16;
};
constexpr CodesAndGrid kForms[] = {
    {CodeKind::kInt4, DrawnGrid::kFp16, true},
    {CodeKind::kInt4, DrawnGrid::kBf16, true},
    {CodeKind::kInt4, DrawnGrid::kFp32, false},
    {CodeKind::kInt4, DrawnGrid::kFp16Minimums, false},
    {CodeKind::kInt4, DrawnGrid::kNestedMinimums, false},
    {CodeKind::kInt8, DrawnGrid::kFp32, true},
    {CodeKind::kInt8, DrawnGrid::kFp16, true},
    {CodeKind::kInt8, DrawnGrid::kFp16Minimums, true},
    {CodeKind::kFloat8, DrawnGrid::kFp32, true},
    {CodeKind::kFloat8, DrawnGrid::kBf16, true},
    {CodeKind::kTable4, DrawnGrid::kFp16, true},
    {CodeKind::kTable4, DrawnGrid::kBf16, true},
    {CodeKind::kTable4, DrawnGrid::kNested, true},
    {CodeKind::kTable4, DrawnGrid::kPowersOfTwo, true},
};

std::vector<float> values_of_codes(const DrawnCodes& codes) {
  std::vector<float> values;
  for (int64_t i = 0; i < codes.rows(); ++i) {
    for (int64_t k = 0; k < codes.columns(); ++k) values.push_back(codes.value(i, k));
  }
  return values;
}

class Coded : public OnEveryTarget {
 protected:
  // Returns the dtype of weights with which products of coded values share their bits.
  static DType dtype() { return current_rounds_to_bf16 ? DType::kBF16 : DType::kF32; }

  void expect_same_bits(const ops::Linear& coded, const ops::Linear& floats, int64_t m, int64_t k,
                        int64_t n) {
    const Matrix x = random_matrix(m, k, random_);
    Matrix expected(m, n), y(m, n);
    floats.apply(x.view(), expected.view());
    coded.apply(x.view(), y.view());
    const size_t bytes = static_cast<size_t>(m * n) * sizeof(float);
    EXPECT_EQ(std::memcmp(y.data(), expected.data(), bytes), 0) << "M " << m;
  }
  // Compares with sums in fp64. The values and the rows are rounded to bf16, by at most 2^-8 of
  // them, and each value may be off by 2^-12 of its scale. No drawn scale is larger than
  // kLargestScale.
  void expect_near(const ops::Linear& coded, const std::vector<float>& values, int64_t m, int64_t k,
                   int64_t n) {
    constexpr double kOfBf16 = 0x1p-7, kOfSums = 0x1p-15, kLargestScale = 6.5;
    const Matrix x = random_matrix(m, k, random_);
    Matrix y(m, n);
    coded.apply(x.view(), y.view());
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0, magnitudes = 0, of_rows = 0;
        for (int64_t c = 0; c < k; ++c) {
          const double value = values[static_cast<size_t>(j * k + c)], of_row = x.row(i)[c];
          sum += value * of_row;
          magnitudes += std::abs(value * of_row);
          of_rows += std::abs(of_row);
        }
        const double bound = (kOfBf16 + kOfSums) * magnitudes + 0x1p-12 * kLargestScale * of_rows;
        ASSERT_NEAR(y.row(i)[j], sum, bound) << "M " << m << ", " << i << ", " << j;
      }
    }
  }
  // Compares a dense layer [k, n] of every form, with groups in order and permuted.
  void expect_same_layer(int64_t k, int64_t n, int64_t group, const std::vector<int64_t>& rows) {
    const OwnedTensor bias(DType::kF32, {n}, random_values(n, random_));
    for (const CodesAndGrid& form : kForms) {
      for (const bool permuted : {false, true}) {
        SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(form.kind) << ", grid "
                                        << static_cast<int>(form.grid) << ", K " << k << ", N " << n
                                        << ", groups of " << group << ", " << permuted);
        const DrawnCodes codes(form.kind, n, k, group, permuted, random_, form.grid);
        const std::vector<float> values = values_of_codes(codes);
        const auto without_bias = backend_->make_linear({.w_t = codes.view()});
        if (current_rounds_to_bf16 && !form.same_bits_in_bf16) {
          for (const int64_t m : rows)
            expect_near(*without_bias, values, std::min<int64_t>(m, 9), k, n);
          continue;
        }
        const OwnedTensor floats(dtype(), {n, k}, values);
        const auto coded_layer = backend_->make_linear({.w_t = codes.view(), .bias = bias.view()});
        const auto float_layer = backend_->make_linear({.w_t = floats.view(), .bias = bias.view()});
        for (const int64_t m : rows) expect_same_bits(*coded_layer, *float_layer, m, k, n);
      }
    }
  }

  std::mt19937_64 random_{kCodedSeed};
  std::unique_ptr<ops::Backend> backend_ = make_backend(kernels_);
};
NMM_ON_EVERY_TARGET(Coded);
NMM_WITH_EMULATED_AMX(Coded);

TEST_P(Coded, MatchesFloatsForManyNumbersOfRows) {
  expect_same_layer(130, 70, 32, {1, 2, 5, 6, 7, 12, 13, 33, 97, 240});
}

TEST_P(Coded, MatchesFloatsForManyShapes) {
  for (const int64_t k : {1, 2, 3, 8, 31, 64, 127, 1024, 1025, 2050}) {
    expect_same_layer(k, 33, 64, {1, 9});
  }
  for (const int64_t n : {1, 8, 31, 32, 64, 100, 700}) expect_same_layer(96, n, 96, {1, 9});
}

TEST_P(Coded, MatchesFloatsInTheFusedMlp) {
  const int64_t h = 70, i = 200;
  const auto drawn = [&](int64_t rows, int64_t columns) {
    return DrawnCodes(CodeKind::kInt4, rows, columns, 32, false, random_, DrawnGrid::kFp16);
  };
  const DrawnCodes gate = drawn(i, h), up = drawn(i, h), down = drawn(h, i);
  const OwnedTensor gate_floats(dtype(), {i, h}, values_of_codes(gate)),
      up_floats(dtype(), {i, h}, values_of_codes(up)),
      down_floats(dtype(), {h, i}, values_of_codes(down));
  const auto coded =
      backend_->make_mlp({{.w_t = gate.view()}, {.w_t = up.view()}, {.w_t = down.view()}});
  const auto floats = backend_->make_mlp(
      {{.w_t = gate_floats.view()}, {.w_t = up_floats.view()}, {.w_t = down_floats.view()}});
  for (const int64_t m : {1, 4, 13, 40}) {
    const Matrix x = random_matrix(m, h, random_);
    Matrix expected(m, h), y(m, h);
    floats->apply(x.view(), expected.view());
    coded->apply(x.view(), y.view());
    EXPECT_EQ(std::memcmp(y.data(), expected.data(), static_cast<size_t>(m * h) * sizeof(float)), 0)
        << "M " << m;
  }
}

// Scales of 2 bytes stay so, and zero points take a byte.
TEST_P(Coded, MemoryIsThatOfTheCodes) {
  const auto bytes = [&](CodeKind kind, int64_t group, DrawnGrid grid) {
    return PackedMatrix(DrawnCodes(kind, 64, 256, group, false, random_, grid).view()).size_bytes();
  };
  EXPECT_EQ(bytes(CodeKind::kInt4, 128, DrawnGrid::kFp16), 64 * 256 / 2 + 64 * 2 * 3);
  EXPECT_EQ(bytes(CodeKind::kInt4, 128, DrawnGrid::kFp32), 64 * 256 / 2 + 64 * 2 * 5);
  EXPECT_EQ(bytes(CodeKind::kInt4, 32, DrawnGrid::kFp16Minimums), 64 * 256 / 2 + 64 * 8 * 4);
  EXPECT_EQ(bytes(CodeKind::kTable4, 32, DrawnGrid::kBf16), 64 * 256 / 2 + 64 * 8 * 2);
  // Three outer scales and minimums for eight groups.
  EXPECT_EQ(bytes(CodeKind::kInt4, 32, DrawnGrid::kNestedMinimums),
            64 * 256 / 2 + 64 * (8 * 2 + 3 * 4));
  EXPECT_EQ(bytes(CodeKind::kInt8, 128, DrawnGrid::kFp16Minimums), 64 * 256 + 64 * 2 * 4);
}

TEST_P(Coded, NanCodesGiveNan) {
  DrawnCodes codes(CodeKind::kFloat8, 32, 4, 4, false, random_);
  codes.code(3, 2) = 127;
  codes.code(9, 1) = 255;
  const auto layer = backend_->make_linear({.w_t = codes.view()});
  const Matrix x = random_matrix(1, 4, random_);
  Matrix y(1, 32);
  layer->apply(x.view(), y.view());
  for (int64_t n = 0; n < 32; ++n) EXPECT_EQ(std::isnan(y.data()[n]), n == 3 || n == 9) << n;
}

// Rows of a view, as a process of several takes them.
TEST_P(Coded, AViewMayHaveSomeOfTheRows) {
  const DrawnCodes codes(CodeKind::kInt4, 90, 64, 32, true, random_, DrawnGrid::kFp16);
  const std::vector<float> values = values_of_codes(codes);
  const std::vector<float> some(values.begin() + 20 * 64, values.begin() + 60 * 64);
  const OwnedTensor floats(dtype(), {40, 64}, some);
  const auto coded_layer = backend_->make_linear({.w_t = codes.view(20, 40)});
  const auto float_layer = backend_->make_linear({.w_t = floats.view()});
  expect_same_bits(*coded_layer, *float_layer, 3, 64, 40);
}

}  // namespace
}  // namespace neuronmm::cpu
