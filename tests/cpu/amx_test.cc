// This test checks products on emulated AMX tiles. Products of int8 must have the bits that all
// other instructions give, and products of bf16 those of a CPU that has AMX. The tests
// linear_test.cc and mlp_test.cc also run with emulated AMX, and check that results are right.

#include "cpu/amx.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "cpu/emulated_tiles.h"
#include "cpu/on_every_target.h"
#include "ops/owned_tensor.h"
#include "ops/quantize.h"

namespace neuronmm::cpu {
namespace {

constexpr uint64_t kAmxSeed = 13;

class EmulatedAmx : public OnEveryTarget {
 protected:
  ops::QuantizedWeight weight(int64_t rows, int64_t columns) {
    const OwnedTensor w(DType::kF32, {rows, columns}, random_values(rows * columns, random_));
    return ops::quantize(w.view());
  }
  // Compares the emulated tiles with the best kernels of the same target.
  void expect_same_bits(const ops::LinearWeight& weight, int64_t m) {
    SCOPED_TRACE(testing::Message()
                 << "seed " << kAmxSeed << ", M " << m << ", K " << weight.in_features() << ", r "
                 << weight.rank() << ", N " << weight.out_features());
    const Matrix x = random_matrix(m, weight.in_features(), random_);
    Matrix expected(m, weight.out_features()), y(m, weight.out_features());
    make_backend(current_kernels())->make_linear(weight)->apply(x.view(), expected.view());
    make_backend(kernels_)->make_linear(weight)->apply(x.view(), y.view());
    const size_t bytes = static_cast<size_t>(m * y.columns()) * sizeof(float);
    EXPECT_EQ(std::memcmp(y.data(), expected.data(), bytes), 0);
  }

  std::mt19937_64 random_{kAmxSeed};
};
INSTANTIATE_TEST_SUITE_P(Emulated, EmulatedAmx, testing::ValuesIn(emulated_amx_sets()),
                         instruction_set_name);

TEST_P(EmulatedAmx, MatchesOtherInstructionsForEveryNumberOfRows) {
  const ops::QuantizedWeight w = weight(70, 300);
  for (int64_t m = 1; m <= 40; ++m) expect_same_bits({.w_t = w.view()}, m);
  for (const int64_t m : {240, 250, 301}) expect_same_bits({.w_t = w.view()}, m);
}

TEST_P(EmulatedAmx, MatchesOtherInstructionsForEveryDepth) {
  for (const int64_t k : {1, 64, 127, 128, 129, 192, 256, 1000, 2048, 2049, 2176, 4100}) {
    const ops::QuantizedWeight w = weight(40, k);
    for (const int64_t m : {12, 19}) expect_same_bits({.w_t = w.view()}, m);
  }
}

TEST_P(EmulatedAmx, MatchesOtherInstructionsForEveryWidth) {
  for (int64_t n = 1; n <= 66; ++n) {
    const ops::QuantizedWeight w = weight(n, 133);
    expect_same_bits({.w_t = w.view()}, 11);
  }
  const ops::QuantizedWeight wide = weight(1100, 128);
  expect_same_bits({.w_t = wide.view()}, 24);
}

TEST_P(EmulatedAmx, MatchesOtherInstructionsForFactorsAndBias) {
  const OwnedTensor bias(DType::kF32, {90}, random_values(90, random_, 10.0f));
  for (const int64_t rank : {64, 128, 320}) {
    const ops::QuantizedWeight u = weight(rank, 260), v = weight(90, rank);
    for (const int64_t m : {6, 12, 125}) {
      expect_same_bits({.u_t = u.view(), .v_t = v.view(), .bias = bias.view()}, m);
    }
  }
}

class AmxOfTheCpu : public EmulatedAmx {};
NMM_WITH_EMULATED_AMX(AmxOfTheCpu);

// The values have all magnitudes, including denormals, which the instruction treats as zeros.
TEST_P(AmxOfTheCpu, Bf16ProductsMatchTheEmulation) {
  const Kernels& of_cpu = best_kernels({.most_dot_products = DotProducts::kInt8AndBf16});
  if (!of_cpu.amx)
    GTEST_SKIP() << "this CPU has no AMX: run this test on one that has, such as Sapphire Rapids";
  std::uniform_int_distribution<int> exponent(-70, 3);
  const auto values = [&](int64_t count) {
    std::vector<float> all = random_values(count, random_);
    for (float& value : all) value = std::ldexp(value, random_() % 4 == 0 ? exponent(random_) : 0);
    return all;
  };
  for (const int64_t k : {1, 31, 32, 33, 576, 2049, 4100}) {
    const OwnedTensor w(DType::kBF16, {70, k}, values(70 * k));
    for (const int64_t m : {1, 2, 7, 16, 17, 31, 40, 301}) {
      SCOPED_TRACE(testing::Message() << "seed " << kAmxSeed << ", M " << m << ", K " << k);
      Matrix x(m, k), expected(m, 70), y(m, 70);
      std::ranges::copy(values(m * k), x.data());
      make_backend(kernels_)->make_linear({.w_t = w.view()})->apply(x.view(), expected.view());
      make_backend(of_cpu)->make_linear({.w_t = w.view()})->apply(x.view(), y.view());
      const size_t bytes = static_cast<size_t>(m * y.columns()) * sizeof(float);
      EXPECT_EQ(std::memcmp(y.data(), expected.data(), bytes), 0);
    }
  }
}

TEST_P(EmulatedAmx, UsesTheTilesAndReleasesThem) {
  set_num_threads(1);
  const ops::QuantizedWeight w = weight(70, 300);
  const int64_t before = EmulatedTiles::products();
  expect_same_bits({.w_t = w.view()}, 25);
  EXPECT_GT(EmulatedTiles::products(), before);
  EXPECT_FALSE(EmulatedTiles::configured());
}

const Kernels* right_kernels = nullptr;

void multiply_wrongly(const PackedRows& a, const PackedMatrix& w, const ProductPart& part,
                      const float* bias, MutableMatrixView y) {
  right_kernels->multiply(a, w, part, bias, y);
  if (a.rows == kMaxTileRows) y.row(kMaxTileRows - 1)[0] *= 1.0000002f;
}

// The kernels are compared like this before AMX is used. One wrong element is enough to refuse AMX.
TEST_P(EmulatedAmx, OneWrongElementIsEnoughToRefuseIt) {
  EXPECT_TRUE(multiply_alike(current_kernels(), kernels_));
  right_kernels = &kernels_;
  Kernels wrong = kernels_;
  wrong.multiply_floats = wrong.multiply_int8 = multiply_wrongly;
  EXPECT_FALSE(multiply_alike(current_kernels(), wrong));
}

}  // namespace
}  // namespace neuronmm::cpu
