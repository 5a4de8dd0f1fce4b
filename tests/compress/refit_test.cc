#include "compress/refit.h"

#include <gtest/gtest.h>

#include "compress/factorize.h"
#include "oracle.h"

namespace neuronmm::compress {
namespace {

constexpr int64_t kSize = 12, kTokens = 60, kSeed = 41;

struct Activations {
  DoubleMatrix dense, compressed;  // [n, tokens]
  DoubleMatrix gram() const {
    return multiply(compressed, Transpose::kNo, compressed, Transpose::kYes);
  }
  DoubleMatrix cross() const {
    return multiply(dense, Transpose::kNo, compressed, Transpose::kYes);
  }
  DoubleMatrix map(double ridge) const {
    auto eigen = symmetric_eigen(gram());
    return refit_map(gram(), *eigen, cross(), ridge);
  }
};

// Compressed activations of the given rank, dense ones near a linear map of them.
Activations random_activations(int64_t rank, std::mt19937_64& random) {
  Activations a;
  a.compressed = multiply(random_matrix(kSize, rank, random), Transpose::kNo,
                          random_matrix(rank, kTokens, random), Transpose::kNo);
  a.dense =
      multiply(random_matrix(kSize, kSize, random), Transpose::kNo, a.compressed, Transpose::kNo);
  const DoubleMatrix noise = random_matrix(kSize, kTokens, random);
  for (int64_t i = 0; i < noise.size(); ++i) a.dense.data()[i] += 0.1 * noise.data()[i];
  return a;
}

// Σ ‖a - A·â‖² + λ ‖A - I‖² in long double.
long double objective(const Activations& a, const DoubleMatrix& map, double ridge) {
  long double trace = 0, pull = 0;
  const DoubleMatrix gram = a.gram();
  for (int64_t i = 0; i < kSize; ++i) trace += gram(i, i);
  for (int64_t j = 0; j < kSize; ++j) {
    for (int64_t i = 0; i < kSize; ++i) {
      const long double d = map(i, j) - (i == j ? 1.0L : 0.0L);
      pull += d * d;
    }
  }
  const LongMatrix residual = LongMatrix(a.dense) - LongMatrix(map) * LongMatrix(a.compressed);
  return residual.energy() + ridge * trace / kSize * pull;
}

TEST(Refit, MinimisesTheAnchoredError) {
  std::mt19937_64 random(kSeed);
  for (const int64_t rank : {kSize, int64_t{5}}) {
    for (const double ridge : {1e-6, 1e-3, 1.0}) {
      SCOPED_TRACE(fmt::format("rank {}, ridge {}, seed {}", rank, ridge, kSeed));
      const Activations a = random_activations(rank, random);
      const DoubleMatrix best = a.map(ridge);
      const long double least = objective(a, best, ridge);
      // A convex quadratic: at its minimum a step either way costs the same, and something.
      for (int trial = 0; trial < 20; ++trial) {
        const DoubleMatrix step = random_matrix(kSize, kSize, random);
        DoubleMatrix forth = best, back = best;
        for (int64_t i = 0; i < step.size(); ++i) {
          forth.data()[i] += 1e-3 * step.data()[i];
          back.data()[i] -= 1e-3 * step.data()[i];
        }
        const long double up = objective(a, forth, ridge) - least;
        const long double down = objective(a, back, ridge) - least;
        EXPECT_GT(up, 0);
        EXPECT_NEAR(static_cast<double>(up / down), 1.0, 1e-4);
      }
    }
  }
}

TEST(Refit, LeavesAloneWhatTheTextDidNotVisit) {
  std::mt19937_64 random(kSeed);
  Activations a = random_activations(5, random);
  // The last activation is 0 in every token.
  for (int64_t t = 0; t < kTokens; ++t) a.compressed(kSize - 1, t) = 0.0;
  const DoubleMatrix map = a.map(kRidge);
  for (int64_t i = 0; i < kSize; ++i) {
    EXPECT_NEAR(map(i, kSize - 1), i == kSize - 1 ? 1.0 : 0.0, 1e-9) << i;
  }
  a.compressed = a.dense = DoubleMatrix(kSize, kTokens);
  const DoubleMatrix identity = a.map(kRidge);
  for (int64_t j = 0; j < kSize; ++j) {
    for (int64_t i = 0; i < kSize; ++i) EXPECT_EQ(identity(i, j), i == j ? 1.0 : 0.0);
  }
}

TEST(Refit, NothingLostNothingChanged) {
  std::mt19937_64 random(kSeed);
  Activations a = random_activations(kSize, random);
  a.dense = a.compressed;
  const DoubleMatrix map = a.map(kRidge);
  for (int64_t j = 0; j < kSize; ++j) {
    for (int64_t i = 0; i < kSize; ++i) EXPECT_NEAR(map(i, j), i == j ? 1.0 : 0.0, 1e-12);
  }
}

// No matrix of the rank guesses the targets better from down's outputs: the classical reduced-rank
// regression, whose residual is that of the best map plus the singular values left out.
TEST(Refit, MappedOutputIsTheBestOfItsRank) {
  std::mt19937_64 random(kSeed);
  const int64_t wide = 30, rank = 4;
  const DoubleMatrix w_t = random_matrix(kSize, wide, random);
  Activations a = random_activations(kSize, random);
  const DoubleMatrix inner = random_matrix(wide, kTokens, random);
  a.compressed = multiply(w_t, Transpose::kNo, inner, Transpose::kNo);
  const double ridge = 1e-12;
  const DoubleMatrix map = a.map(ridge);
  const auto root = whitening_root(a.gram());
  ASSERT_TRUE(root.ok());
  const auto factors = factorize_mapped_output(w_t, map, *root, rank, DType::kF64);
  ASSERT_TRUE(factors.ok()) << factors.error().message;
  const LongMatrix guess =
      LongMatrix(factors->v_t) * (LongMatrix(factors->u_t) * LongMatrix(inner));
  const LongMatrix fitted = LongMatrix(map) * LongMatrix(a.compressed);
  const double actual = static_cast<double>((LongMatrix(a.dense) - guess).energy());
  const double left = static_cast<double>((LongMatrix(a.dense) - fitted).energy());
  const double expected = left + energy_beyond(jacobi_singular_values(fitted), rank);
  EXPECT_NEAR(actual / expected, 1.0, 1e-8);
}

}  // namespace
}  // namespace neuronmm::compress
