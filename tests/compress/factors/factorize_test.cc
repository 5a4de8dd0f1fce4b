// This file compares every factorization with the optimum from one-sided Jacobi rotations
// (oracle.h).

#include "compress/factors/factorize.h"

#include <gtest/gtest.h>
#include <lapacke.h>

#include "base/parallel.h"
#include "compress/oracle.h"
#include "compress/rounding/factor_rounding.h"

namespace neuronmm::compress {
namespace {

// The largest ratio of output error to optimum that is allowed.
constexpr double kExcess = 1.0001;

// Returns the energy of (w - v·u)·activations.
double output_error(const DoubleMatrix& w_t, const Factors& factors,
                    const LongMatrix& activations) {
  const LongMatrix product = LongMatrix(factors.v_t) * LongMatrix(factors.u_t);
  return static_cast<double>(((LongMatrix(w_t) - product) * activations).energy());
}

// Returns activations X with X·Xᵀ = Q·diag(λ)·Qᵀ, where λ falls from 1 to 1/condition. Two
// "massive" channels are then made 300 times as large. `rank` may be less than `size`.
LongMatrix activations_of(int64_t size, double condition, int64_t rank, std::mt19937_64& random) {
  LongMatrix x = random_orthonormal(size, rank, random);
  for (int64_t j = 0; j < rank; ++j) {
    const double exponent = static_cast<double>(j) / static_cast<double>(rank - 1);
    const double root = std::pow(condition, -0.5 * exponent);
    for (int64_t i = 0; i < size; ++i) x(i, j) *= root;
  }
  for (int64_t j = 0; j < rank; ++j) {
    for (const int64_t massive : {3, 17}) x(massive, j) *= 300;
  }
  return x;
}

// Returns the Gram matrix that a perfect fp64 accumulation would have, with every entry exact to
// half an ulp.
DoubleMatrix gram_of(const LongMatrix& x) {
  DoubleMatrix gram(x.rows, x.rows);
  for (int64_t j = 0; j < x.rows; ++j) {
    for (int64_t i = 0; i < x.rows; ++i) {
      long double sum = 0;
      for (int64_t k = 0; k < x.columns; ++k) sum += x(i, k) * x(j, k);
      gram(i, j) = static_cast<double>(sum);
    }
  }
  return gram;
}

// The tests use one thread, as a compression does for each layer.
class Factorize : public testing::Test {
 protected:
  void SetUp() override { set_num_threads(1); }
  void TearDown() override { set_num_threads(threads_); }
  const int threads_ = num_threads();
};

struct Case {
  const char* name;
  int64_t k, n, rank;
  double condition;
  int64_t gram_rank;
};

void check_whitened(const Case& c, uint64_t seed) {
  SCOPED_TRACE(fmt::format("{}: K {} N {} r {}, seed {}", c.name, c.k, c.n, c.rank, seed));
  std::mt19937_64 random(seed);
  const DoubleMatrix w_t = random_matrix(c.n, c.k, random);
  const LongMatrix x = activations_of(c.k, c.condition, c.gram_rank, random);
  const LongMatrix outputs = LongMatrix(w_t) * x;
  const double optimum = energy_beyond(jacobi_singular_values(outputs), c.rank);
  const double total = static_cast<double>(outputs.energy());

  const auto root = whitening_root(gram_of(x));
  ASSERT_TRUE(root.ok()) << root.error().message;
  const auto by_input = factorize_whitened(w_t, *root, c.rank, DType::kF64);
  ASSERT_TRUE(by_input.ok()) << by_input.error().message;
  ASSERT_EQ(by_input->v_t.columns(), c.rank);
  ASSERT_EQ(by_input->u_t.rows(), c.rank);
  // If the optimum is 0, the rounding of the Gram matrix to fp64 sets the error.
  const double floor = 1e-15 * total;
  EXPECT_LE(output_error(w_t, *by_input, x), kExcess * optimum + floor);
  EXPECT_NEAR(energy_lost(by_input->singular_values, c.rank), optimum / total,
              1e-4 * optimum / total + 1e-14);

  const auto by_output = factorize_by_output(w_t, gram_of(outputs), c.rank, DType::kF64);
  ASSERT_TRUE(by_output.ok()) << by_output.error().message;
  EXPECT_LE(output_error(w_t, *by_output, x), kExcess * optimum + floor);
  EXPECT_NEAR(energy_lost(by_output->singular_values, c.rank), optimum / total,
              1e-4 * optimum / total + 1e-14);
}

TEST_F(Factorize, WhitenedFactorsReachTheOptimum) {
  constexpr Case kCases[] = {
      {"well-conditioned", 96, 192, 48, 1e2, 96},
      {"ill-conditioned", 96, 192, 48, 1e8, 96},
      {"very ill-conditioned", 96, 192, 48, 3e11, 96},
      {"condition beyond fp64", 96, 192, 24, 1e15, 96},
      {"rank-deficient Gram", 96, 192, 40, 1e4, 60},
      {"Gram of lower rank than the factors", 96, 192, 48, 1e4, 30},
      {"square", 96, 96, 32, 1e6, 96},
      {"wide", 128, 64, 32, 1e6, 128},
      {"rank 1", 96, 128, 1, 1e3, 96},
  };
  for (const Case& c : kCases) check_whitened(c, 20240611);
}

TEST_F(Factorize, WhitenedFactorsReachTheOptimumOfALargerMatrix) {
  check_whitened({"larger", 160, 320, 64, 6e13, 160}, 7);
}

// The projection keeps what it can of W in directions that the calibration never visited. A
// pseudo-inverse would map them to zero.
TEST_F(Factorize, DirectionsAbsentFromTheCalibrationAreNotZeroed) {
  std::mt19937_64 random(3);
  const DoubleMatrix w_t = random_matrix(128, 64, random);
  const LongMatrix x = random_orthonormal(64, 32, random);
  const auto root = whitening_root(gram_of(x));
  ASSERT_TRUE(root.ok());
  const auto factors = factorize_whitened(w_t, *root, 40, DType::kF64);
  ASSERT_TRUE(factors.ok()) << factors.error().message;
  const LongMatrix product = LongMatrix(factors->v_t) * LongMatrix(factors->u_t);
  const LongMatrix visited = product * x;
  const auto all = static_cast<double>(product.energy());
  const auto seen = static_cast<double>(visited.energy());
  EXPECT_GT(all - seen, 0.1 * seen);
}

// Compares the singular values with those of Jacobi rotations, and the error of the factors with
// the Eckart-Young theorem, for tall, wide and square matrices.
TEST_F(Factorize, PlainFactorsAreTheTruncatedSvd) {
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{160, 96}, {96, 160}, {96, 96}}) {
    SCOPED_TRACE(fmt::format("N {} K {}", n, k));
    std::mt19937_64 random(11);
    DoubleMatrix w_t = random_matrix(n, k, random);
    // The singular values cover four orders of magnitude.
    for (int64_t j = 0; j < k; ++j) {
      w_t.scale_column(j, std::pow(10.0, -4.0 * static_cast<double>(j) / static_cast<double>(k)));
    }
    const std::vector<double> expected = jacobi_singular_values(LongMatrix(w_t));
    const int64_t rank = 40;
    const auto factors = factorize_plain(w_t, rank, DType::kF64);
    ASSERT_TRUE(factors.ok()) << factors.error().message;
    ASSERT_EQ(factors->singular_values.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(factors->singular_values[i], expected[i], 1e-5 * expected[i]) << i;
    }
    const LongMatrix product = LongMatrix(factors->v_t) * LongMatrix(factors->u_t);
    const auto error = static_cast<double>((LongMatrix(w_t) - product).energy());
    const double optimum = energy_beyond(expected, rank);
    EXPECT_NEAR(error, optimum, 1e-9 * optimum);
    // The factors share σ: its square root is in u_t and in v_t.
    for (int64_t i = 0; i < rank; ++i) {
      double first = 0.0, second = 0.0;
      for (int64_t j = 0; j < k; ++j) first += factors->u_t(i, j) * factors->u_t(i, j);
      for (int64_t j = 0; j < n; ++j) second += factors->v_t(j, i) * factors->v_t(j, i);
      const double sigma = expected[static_cast<size_t>(i)];
      EXPECT_NEAR(first, sigma, 1e-9 * sigma);
      EXPECT_NEAR(second, sigma, 1e-9 * sigma);
    }
  }
}

// The rounding to bf16 changes the entries of u_t by at most a relative 2^-9 (half an ulp). The
// rounding of v_t adds no error of its own, because u_t is fitted to the rounded v_t.
TEST_F(Factorize, OnlyTheFirstFactorLosesByBf16Rounding) {
  const int64_t k = 96, n = 192, rank = 48;
  std::mt19937_64 random(5);
  const DoubleMatrix w_t = random_matrix(n, k, random);
  const LongMatrix x = activations_of(k, 1e3, k, random);
  const auto root = whitening_root(gram_of(x));
  ASSERT_TRUE(root.ok());
  const auto rounded = factorize_whitened(w_t, *root, rank, DType::kBF16);
  ASSERT_TRUE(rounded.ok()) << rounded.error().message;
  for (const DoubleMatrix* factor : {&rounded->u_t, &rounded->v_t}) {
    DoubleMatrix again = *factor;
    round_to(DType::kBF16, again);
    EXPECT_TRUE(std::equal(again.data(), again.data() + again.size(), factor->data()));
  }
  const auto refitted = least_squares(rounded->v_t, w_t);
  ASSERT_TRUE(refitted.ok());
  for (int64_t i = 0; i < refitted->size(); ++i) {
    EXPECT_LE(std::abs(refitted->data()[i] - rounded->u_t.data()[i]),
              std::ldexp(std::abs(refitted->data()[i]), -8));
  }
  const Factors exact_u{rounded->v_t, *refitted, {}};
  const auto unrounded = factorize_whitened(w_t, *root, rank, DType::kF64);
  ASSERT_TRUE(unrounded.ok());
  // The rounding tilts the span of v_t by about 2^-9, which loses the square of that of the kept
  // energy.
  const auto total = static_cast<double>((LongMatrix(w_t) * x).energy());
  EXPECT_LE(output_error(w_t, exact_u, x),
            output_error(w_t, *unrounded, x) + std::ldexp(total, -16));
}

// Returns the best u_t for a rounded v_t, computed by LAPACK's QR.
DoubleMatrix lapack_fit(DoubleMatrix v_t, DoubleMatrix w_t) {
  const auto n = static_cast<int>(v_t.rows()), r = static_cast<int>(v_t.columns());
  const auto k = static_cast<int>(w_t.columns());
  EXPECT_EQ(LAPACKE_dgels(LAPACK_COL_MAJOR, 'N', n, r, k, v_t.data(), n, w_t.data(), n), 0);
  return w_t.first_rows(r);
}

DoubleMatrix rounded(DoubleMatrix matrix, const LowBitFormat& format = {}) {
  round_to(format, matrix);
  return matrix;
}
constexpr LowBitFormat kFewBits[] = {{8}, {6}, {4, 16}, {4, 32}};

void expect_near(const DoubleMatrix& found, const DoubleMatrix& exact, double tolerance) {
  ASSERT_EQ(found.rows(), exact.rows());
  ASSERT_EQ(found.columns(), exact.columns());
  for (int64_t i = 0; i < exact.size(); ++i) {
    ASSERT_NEAR(found.data()[i], exact.data()[i], tolerance) << i;
  }
}

double largest_of(const DoubleMatrix& matrix) {
  double largest = 0.0;
  for (int64_t i = 0; i < matrix.size(); ++i) {
    largest = std::max(largest, std::abs(matrix.data()[i]));
  }
  return largest;
}

// For every method, u_t is the least-squares solution for the rounded v_t. In the norm of the
// activations, both together are no worse than factors that are rounded one by one.
TEST_F(Factorize, LowBitFactorsAreFittedToEachOther) {
  const int64_t k = 140, n = 200, rank = 130;
  for (const LowBitFormat& format : kFewBits) {
    SCOPED_TRACE(fmt::format("{} bits, groups of {}", format.bits, format.group));
    std::mt19937_64 random(static_cast<uint64_t>(format.bits));
    const DoubleMatrix w_t = random_matrix(n, k, random);
    const LongMatrix x = activations_of(k, 1e3, k, random);
    const auto root = whitening_root(gram_of(x));
    ASSERT_TRUE(root.ok());
    const DoubleMatrix gram_out = gram_of(LongMatrix(w_t) * x);
    const auto check = [&](const Result<Factors>& few, const Result<Factors>& exact) {
      ASSERT_TRUE(few.ok() && exact.ok());
      const DoubleMatrix v_t = rounded(few->v_t, format);
      expect_near(few->u_t, lapack_fit(v_t, w_t), 1e-6 * largest_of(few->u_t));  // fp32 rounding
      const Factors both = {v_t, rounded(few->u_t, format), {}};
      const Factors one_by_one = {rounded(exact->v_t, format), rounded(exact->u_t, format), {}};
      EXPECT_LE(output_error(w_t, both, x), output_error(w_t, one_by_one, x));
    };
    check(factorize_whitened(w_t, *root, rank, format),
          factorize_whitened(w_t, *root, rank, DType::kF64));
    check(factorize_by_output(w_t, gram_out, rank, format),
          factorize_by_output(w_t, gram_out, rank, DType::kF64));
  }
}

TEST_F(Factorize, ExistingFactorsAreFittedToEachOther) {
  const int64_t k = 200, n = 300, rank = 140;
  std::mt19937_64 random(4);
  DoubleMatrix v_t = random_matrix(n, rank, random), u_t = random_matrix(rank, k, random);
  // The lengths of the columns cover six orders of magnitude.
  for (int64_t i = 0; i < rank; ++i) {
    v_t.scale_column(i, std::pow(10.0, 6.0 * static_cast<double>(i) / static_cast<double>(rank)));
    u_t.scale_row(i, std::pow(10.0, -6.0 * static_cast<double>(i) / static_cast<double>(rank)));
  }
  const DoubleMatrix product = multiply(v_t, Transpose::kNo, u_t, Transpose::kNo);
  for (const LowBitFormat& format : kFewBits) {
    SCOPED_TRACE(fmt::format("{} bits, groups of {}", format.bits, format.group));
    const FactorPair factors = fit_to_rounded(v_t, u_t, format);
    const DoubleMatrix of_v = rounded(factors.v_t, format);
    expect_near(factors.u_t, lapack_fit(of_v, product), 1e-9 * largest_of(factors.u_t));
    const auto error = [&](const DoubleMatrix& v, const DoubleMatrix& u) {
      return static_cast<double>((LongMatrix(product) - LongMatrix(v) * LongMatrix(u)).energy());
    };
    EXPECT_LT(error(of_v, rounded(factors.u_t, format)),
              error(rounded(v_t, format), rounded(u_t, format)));
  }
  // Without full column rank there is nothing to fit.
  for (int64_t j = 0; j < n; ++j) v_t(j, 5) = 0;
  const FactorPair singular = fit_to_rounded(v_t, u_t, {});
  EXPECT_TRUE(singular.u_t.all_finite() && singular.v_t.all_finite());
}

TEST_F(Factorize, AMatrixOfTheKeptRankIsReproduced) {
  std::mt19937_64 random(9);
  const int64_t rank = 24;
  const DoubleMatrix w_t = multiply(random_matrix(128, rank, random), Transpose::kNo,
                                    random_matrix(rank, 64, random), Transpose::kNo);
  const LongMatrix x = activations_of(64, 1e2, 64, random);
  const auto root = whitening_root(gram_of(x));
  ASSERT_TRUE(root.ok());
  const double scale = static_cast<double>(LongMatrix(w_t).energy());
  const auto whitened = factorize_whitened(w_t, *root, rank, DType::kF64);
  const auto plain = factorize_plain(w_t, rank, DType::kF64);
  for (const auto* factors : {&whitened, &plain}) {
    ASSERT_TRUE(factors->ok());
    const LongMatrix product = LongMatrix((*factors)->v_t) * LongMatrix((*factors)->u_t);
    EXPECT_LE(static_cast<double>((LongMatrix(w_t) - product).energy()), 1e-24 * scale);
    EXPECT_LE(energy_lost((*factors)->singular_values, rank), 1e-24);
  }
}

TEST_F(Factorize, AllZeroWeightsAndActivationsGiveFiniteFactors) {
  const DoubleMatrix zero(64, 32);
  std::mt19937_64 random(1);
  const auto root = whitening_root(DoubleMatrix(32, 32));
  ASSERT_TRUE(root.ok());
  const auto check = [](const Result<Factors>& factors) {
    ASSERT_TRUE(factors.ok()) << factors.error().message;
    EXPECT_TRUE(factors->u_t.all_finite());
    EXPECT_TRUE(factors->v_t.all_finite());
    EXPECT_EQ(energy_lost(factors->singular_values, 8), 0.0);
  };
  check(factorize_plain(zero, 8, DType::kBF16));
  check(factorize_whitened(zero, *root, 8, DType::kBF16));
  check(factorize_whitened(random_matrix(64, 32, random), *root, 8, DType::kBF16));
  check(factorize_by_output(zero, DoubleMatrix(64, 64), 8, DType::kBF16));
  check(factorize_plain(zero, 8, LowBitFormat{}));
  check(factorize_by_output(zero, DoubleMatrix(64, 64), 8, LowBitFormat{}));
}

TEST_F(Factorize, EnergyLostIsTheShareOfDiscardedSquares) {
  EXPECT_DOUBLE_EQ(energy_lost({3.0, 2.0, 1.0}, 1), 5.0 / 14.0);
  EXPECT_DOUBLE_EQ(energy_lost({3.0, 2.0, 1.0}, 3), 0.0);
  EXPECT_DOUBLE_EQ(energy_lost({0.0, 0.0}, 1), 0.0);
}

}  // namespace
}  // namespace neuronmm::compress
