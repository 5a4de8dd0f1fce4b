// This file compares operations on matrices of several blocks, the last one partial, with sums in
// long double.

#include "compress/linear_algebra/linear_algebra.h"

#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "compress/oracle.h"
#include "compress/rounding/stored_format.h"

namespace neuronmm::compress {
namespace {

constexpr int64_t kOrder = 600, kLeftRows = 40;
constexpr uint64_t kAlgebraSeed = 20261126;
constexpr double kUnit = 0x1p-53;

DoubleMatrix random_matrix(int64_t rows, int64_t columns, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  DoubleMatrix out(rows, columns);
  for (int64_t i = 0; i < out.size(); ++i) out.data()[i] = normal(random);
  return out;
}

long double dot(const double* a, int64_t step_a, const double* b, int64_t step_b, int64_t count) {
  long double sum = 0;
  for (int64_t k = 0; k < count; ++k) {
    sum += static_cast<long double>(a[k * step_a]) * b[k * step_b];
  }
  return sum;
}

// Returns X·Xᵀ for a matrix that is a little wider than high, so that the product is
// well-conditioned.
DoubleMatrix random_positive(std::mt19937_64& random) {
  const DoubleMatrix x = random_matrix(kOrder, kOrder + 50, random);
  return multiply(x, Transpose::kNo, x, Transpose::kYes);
}

class Algebra : public testing::Test {
 protected:
  void TearDown() override { set_num_threads(threads_); }
  // Expects the same bits on one thread and on three, and returns the matrix.
  template <typename Make>
  DoubleMatrix same_bits(const Make& make) const {
    set_num_threads(1);
    const DoubleMatrix one = make();
    set_num_threads(3);
    const DoubleMatrix three = make();
    EXPECT_EQ(std::memcmp(one.data(), three.data(), sizeof(double) * size_t(one.size())), 0);
    return one;
  }
  const int threads_ = num_threads();
  std::mt19937_64 random_{kAlgebraSeed};
};

TEST_F(Algebra, ProductsMatchLongDouble) {
  const DoubleMatrix a = random_matrix(kLeftRows, kOrder, random_),
                     b = random_matrix(kOrder, kOrder, random_);
  const DoubleMatrix b_t = transposed(b), a_t = transposed(a);
  const DoubleMatrix plain =
      same_bits([&] { return multiply(a, Transpose::kNo, b, Transpose::kNo); });
  const DoubleMatrix others[] = {multiply(a, Transpose::kNo, b_t, Transpose::kYes),
                                 multiply(a_t, Transpose::kYes, b, Transpose::kNo),
                                 multiply(a_t, Transpose::kYes, b_t, Transpose::kYes)};
  DoubleMatrix triangle = b;
  for (int64_t j = 1; j < kOrder; ++j) std::fill_n(triangle.column(j), j, 0.0);
  const DoubleMatrix lower = same_bits([&] { return multiply_lower(a, triangle); });
  for (int64_t j = 0; j < kOrder; ++j) {
    for (int64_t i = 0; i < kLeftRows; ++i) {
      const double* const row = a.data() + i;
      const auto all = static_cast<double>(dot(row, kLeftRows, b.column(j), 1, kOrder));
      // The bound is γ_n times the sum of |a·b|, which is below 10 per term.
      const double tolerance = 10.0 * kUnit * kOrder * kOrder;
      ASSERT_NEAR(plain(i, j), all, tolerance);
      for (const DoubleMatrix& other : others) ASSERT_NEAR(other(i, j), all, tolerance);
      const auto below =
          static_cast<double>(dot(row + j * kLeftRows, kLeftRows, b.column(j) + j, 1, kOrder - j));
      ASSERT_NEAR(lower(i, j), below, tolerance);
    }
  }
}

// W·D·Wᵀ is symmetric for a diagonal D, although its two factors differ.
TEST_F(Algebra, SymmetricProductsMatchLongDouble) {
  const DoubleMatrix w = random_matrix(kOrder, kLeftRows, random_);
  DoubleMatrix scaled = w;
  for (int64_t k = 0; k < kLeftRows; ++k) scaled.scale_column(k, 0.1 * static_cast<double>(k + 1));
  const DoubleMatrix found = same_bits([&] { return product_with_transposed(w, scaled); });
  for (int64_t j = 0; j < kOrder; ++j) {
    for (int64_t i = 0; i < kOrder; ++i) {
      const auto expected =
          static_cast<double>(dot(w.data() + i, kOrder, scaled.data() + j, kOrder, kLeftRows));
      ASSERT_NEAR(found(i, j), expected, 40.0 * kUnit * kLeftRows * kLeftRows);
      ASSERT_EQ(found(i, j), found(j, i));
    }
  }
}

// The elements above the diagonal hold values that must not be read.
TEST_F(Algebra, CholeskyFactorsReproduceTheMatrix) {
  DoubleMatrix a = random_positive(random_);
  for (int64_t j = 1; j < kOrder; ++j) std::fill_n(a.column(j), j, 1e300);
  const DoubleMatrix factor = same_bits([&] {
    auto found = cholesky(a);
    EXPECT_TRUE(found.ok());
    return std::move(found).value();
  });
  for (int64_t j = 0; j < kOrder; ++j) {
    for (int64_t i = 0; i < j; ++i) ASSERT_EQ(factor(i, j), 0.0);
    for (int64_t i = j; i < kOrder; ++i) {
      const long double product = dot(factor.data() + i, kOrder, factor.data() + j, kOrder, j + 1);
      // The bound is that of Higham, theorem 10.3: |L·Lᵀ - A| <= γ_(n+1) |L|·|L|ᵀ <= γ_(n+1) √(a_ii
      // a_jj).
      const double bound = 1.1 * kUnit * (kOrder + 1) * std::sqrt(a(i, i) * a(j, j));
      ASSERT_NEAR(static_cast<double>(product - a(i, j)), 0.0, bound) << i << " " << j;
    }
  }
}

TEST_F(Algebra, CholeskyRefusesMatricesThatAreNotPositiveDefinite) {
  for (const int64_t at : {int64_t{3}, kOrder - 5}) {  // in the first block and in the last
    DoubleMatrix a = random_positive(random_);
    a(at, at) = -1.0;
    EXPECT_FALSE(cholesky(a).ok());
    EXPECT_FALSE(solve_positive(a, DoubleMatrix(kOrder, 2)).ok());
  }
}

TEST_F(Algebra, SolutionsAndInverseDiagonalsAreAccurate) {
  const DoubleMatrix a = random_positive(random_), b = random_matrix(kOrder, 300, random_);
  const DoubleMatrix x = same_bits([&] {
    auto found = solve_positive(a, b);
    EXPECT_TRUE(found.ok());
    return std::move(found).value();
  });
  double norm_a = 0.0;
  // The trace is at least the largest eigenvalue.
  for (int64_t i = 0; i < kOrder; ++i) norm_a += a(i, i);
  for (int64_t j = 0; j < b.columns(); ++j) {
    double norm_x = 0.0;
    for (int64_t k = 0; k < kOrder; ++k) norm_x += x(k, j) * x(k, j);
    const double bound = 4.0 * kUnit * kOrder * norm_a * std::sqrt(norm_x);
    for (int64_t i = 0; i < kOrder; ++i) {
      const long double product = dot(a.column(i), 1, x.column(j), 1, kOrder);
      ASSERT_NEAR(static_cast<double>(product - b(i, j)), 0.0, bound);
    }
  }
  DoubleMatrix identity(kOrder, kOrder);
  for (int64_t i = 0; i < kOrder; ++i) identity(i, i) = 1.0;
  const auto inverse = solve_positive(a, identity);
  const auto factor = cholesky(a);
  ASSERT_TRUE(inverse.ok() && factor.ok());
  const DoubleMatrix found = same_bits([&] {
    const std::vector<double> values = inverse_diagonal(*factor);
    DoubleMatrix row(1, kOrder);
    std::ranges::copy(values, row.data());
    return row;
  });
  // The two results differ by n units times the condition number, which is about 10^4 here.
  for (int64_t i = 0; i < kOrder; ++i) {
    EXPECT_NEAR(found(0, i) / (*inverse)(i, i), 1.0, 1e5 * kUnit * kOrder);
  }
}

TEST_F(Algebra, EigenvaluesAreThoseOfTheDecomposition) {
  const DoubleMatrix a = random_positive(random_);
  const auto values = symmetric_eigenvalues(a);
  const auto eigen = symmetric_eigen(a);
  ASSERT_TRUE(values.ok() && eigen.ok());
  const double largest = eigen->values.front();
  for (size_t i = 0; i < values->size(); ++i) {
    EXPECT_NEAR((*values)[i], eigen->values[i], 10.0 * kUnit * kOrder * largest);
  }
}

TEST_F(Algebra, PartsOfMatricesHoldTheRightElements) {
  const DoubleMatrix a = random_matrix(kOrder, 130, random_);
  const std::vector<int32_t> rows = {599, 3, 3, 0}, columns = {129, 64, 0};
  const DoubleMatrix part = a.at(rows, columns), block = a.first_block(100);
  for (size_t j = 0; j < columns.size(); ++j) {
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(part(int64_t(i), int64_t(j)), a(rows[i], columns[j]));
    }
  }
  ASSERT_EQ(block.rows(), 100);
  for (int64_t j = 0; j < 100; ++j) {
    for (int64_t i = 0; i < 100; ++i) ASSERT_EQ(block(i, j), a(i, j));
  }
  DoubleMatrix square = random_matrix(130, 130, random_);
  const DoubleMatrix before = square;
  mirror_lower_triangle(square);
  for (int64_t j = 0; j < 130; ++j) {
    for (int64_t i = 0; i < 130; ++i) {
      ASSERT_EQ(square(i, j), before(std::max(i, j), std::min(i, j)));
    }
  }
}

// The largest fp16 value is 65504. A value halfway to the next step rounds to infinity.
TEST(StoredFormat, ValuesBeyondTheRangeOfADtypeAreAnError) {
  const std::vector<float> largest = {1, -65504}, beyond = {1, -65520}, nan = {3, std::nanf(""), 2};
  EXPECT_TRUE(check_range("w", largest, DType::kF16).ok());
  EXPECT_TRUE(check_range("w", beyond, DType::kBF16).ok());
  const Status refused = check_range("w", beyond, DType::kF16);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "w: -65520 is beyond the range of F16");
  EXPECT_FALSE(check_range("w", nan, DType::kF32).ok());
  DoubleMatrix matrix(2, 2);
  matrix(1, 0) = 1e39;
  EXPECT_FALSE(check_range("w", matrix, DType::kF32).ok());
  EXPECT_TRUE(check_range("w", matrix, DType::kF64).ok());
}

}  // namespace
}  // namespace neuronmm::compress
