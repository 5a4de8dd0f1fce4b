// Tests the products of float against fp64, in every shape of training and both precisions.

#include "training/products.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "drawn_model.h"

namespace neuronmm::training {
namespace {

struct Case {
  int64_t m, k, n;
};

// Sizes that no tile divides, single rows and columns, and sums that are longer than a block of K.
const std::vector<Case> kCases = {{1, 1, 1},    {3, 5, 7},      {33, 31, 65},
                                  {64, 64, 64}, {130, 257, 96}, {17, 2100, 40}};

// Fills a matrix and a copy of its transpose.
struct Operand {
  Rows<float> values, transposed;

  Operand(const std::string& name, int64_t rows, int64_t columns)
      : values(drawn_rows<float>(name, rows, columns)), transposed(columns, rows) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) transposed.row(j)[i] = values.row(i)[j];
    }
  }
};

// Returns A·W, whose factors are packed as they are or from their transposes.
Rows<float> product(const Operand& a, const Operand& w, Precision precision, bool transposed_a,
                    bool transposed_w) {
  LeftFactor<float> left;
  RightFactor<float> right;
  if (transposed_a) {
    left.pack_transposed(a.transposed.view(), precision);
  } else {
    left.pack(a.values.view(), precision);
  }
  if (transposed_w) {
    right.pack_transposed(w.transposed.view(), precision);
  } else {
    right.pack(w.values.view(), precision);
  }
  Rows<float> y(a.values.rows(), w.values.columns());
  multiply(left, right, y.view());
  return y;
}

class Products : public testing::TestWithParam<Precision> {};

// A rounding to bf16 is at most 2^-9 of each factor. Errors of random signs add like their squares;
// six standard deviations are allowed, and the bound of sums in fp32.
TEST_P(Products, AreNearThoseOfFp64) {
  for (const auto& [m, k, n] : kCases) {
    const Operand a("a", m, k), w("w", k, n);
    const Rows<float> y = product(a, w, GetParam(), false, false);
    const double rounding = GetParam() == Precision::kBf16 ? 0x1p-9 : 0.0;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0.0, squares = 0.0, magnitude = 0.0;
        for (int64_t l = 0; l < k; ++l) {
          const double term =
              static_cast<double>(a.values.row(i)[l]) * static_cast<double>(w.values.row(l)[j]);
          sum += term;
          squares += term * term;
          magnitude += std::abs(term);
        }
        const double bound = 6.0 * rounding * std::sqrt(2.0 * squares) +
                             static_cast<double>(k + 2) * 0x1p-24 * magnitude;
        EXPECT_NEAR(y.row(i)[j], sum, bound) << m << " " << k << " " << n;
      }
    }
  }
}

// The bits do not depend on the transposed side or on the number of threads.
TEST_P(Products, HaveTheSameBitsHoweverTheyArePacked) {
  const int threads = num_threads();
  for (const auto& [m, k, n] : kCases) {
    const Operand a("a", m, k), w("w", k, n);
    set_num_threads(1);
    const Rows<float> expected = product(a, w, GetParam(), false, false);
    for (int i = 1; i < 8; ++i) {
      set_num_threads(i % 3 + 1);
      const Rows<float> y = product(a, w, GetParam(), i & 1, i & 2);
      EXPECT_TRUE(std::equal(y.data(), y.data() + y.size(), expected.data())) << i;
    }
  }
  set_num_threads(threads);
}

TEST_P(Products, AddToWhatIsThere) {
  const Operand a("a", 35, 70), w("w", 70, 45);
  const Rows<float> once = product(a, w, GetParam(), false, false);
  LeftFactor<float> left;
  RightFactor<float> right;
  left.pack(a.values.view(), GetParam());
  right.pack(w.values.view(), GetParam());
  Rows<float> y(35, 45);
  std::fill_n(y.data(), y.size(), 4.0f);
  multiply(left, right, y.view(), true);
  for (int64_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y.data()[i], once.data()[i] + 4.0f, 1e-4f);
}

// Attention multiplies with the first rows, or with the first columns, of a packed matrix.
TEST_P(Products, TakeAPartOfTheRightFactor) {
  const Operand a("a", 35, 20), w("w", 50, 80);
  LeftFactor<float> left;
  RightFactor<float> right, part;
  left.pack(a.values.view(), GetParam());
  right.pack(w.values.view(), GetParam());
  part.pack({w.values.data(), 20, 64, 80}, GetParam());
  Rows<float> y(35, 64), expected(35, 64);
  multiply(left, right, y.view());
  multiply(left, part, expected.view());
  EXPECT_TRUE(std::equal(y.data(), y.data() + y.size(), expected.data()));
}

INSTANTIATE_TEST_SUITE_P(Precisions, Products, testing::Values(Precision::kFp32, Precision::kBf16),
                         [](const auto& with) {
                           return with.param == Precision::kFp32 ? "Fp32" : "Bf16";
                         });

}  // namespace
}  // namespace neuronmm::training
