#include "compress/factors/pivoting.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "compress/factors/factorize.h"
#include "compress/whitened_oracle.h"

namespace neuronmm::compress {
namespace {

constexpr uint64_t kPivotSeed = 20261122;
const StoredFormat kStoredFormats[] = {DType::kF32, DType::kBF16, LowBitFormat{8}, LowBitFormat{6},
                                       LowBitFormat{4, 16}};

void expect_finite(const DoubleMatrix& a) { EXPECT_TRUE(a.all_finite()); }

// Expects every index exactly once, with both lists in ascending order.
void expect_partition(const std::vector<int32_t>& index, const std::vector<int32_t>& others,
                      int64_t n) {
  EXPECT_TRUE(std::ranges::is_sorted(index));
  EXPECT_TRUE(std::ranges::is_sorted(others));
  std::vector<int32_t> all = index, expected(static_cast<size_t>(n));
  all.insert(all.end(), others.begin(), others.end());
  std::ranges::sort(all);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

TEST(Pivoting, TheMapReproducesTheOtherRowsFromThePivots) {
  std::mt19937_64 random(kPivotSeed);
  struct Size {
    int64_t n, rank;
  };
  for (const auto& [n, rank] : {Size{2, 1}, Size{9, 1}, Size{9, 8}, Size{40, 39}, Size{40, 20},
                                Size{64, 13}, Size{96, 60}}) {
    for (int trial = 0; trial < 5; ++trial) {
      SCOPED_TRACE(fmt::format("[{}, {}], trial {}, seed {}", n, rank, trial, kPivotSeed));
      const DoubleMatrix basis = rounded_doubles(random_orthonormal(n, rank, random));
      const auto pivots = choose_pivots(basis);
      ASSERT_TRUE(pivots.ok()) << pivots.error().message;
      ASSERT_EQ(std::ssize(pivots->index), rank);
      expect_partition(pivots->index, pivots->others, n);
      EXPECT_LE(pivots->largest(), 1.05);
      double largest = 0.0;
      for (int64_t i = 0; i < pivots->map.size(); ++i) {
        largest = std::max(largest, std::abs(pivots->map.data()[i]));
      }
      EXPECT_EQ(pivots->largest(), largest);
      const LongMatrix wrong = LongMatrix(pivots->map) * LongMatrix(basis.rows_at(pivots->index)) -
                               LongMatrix(basis.rows_at(pivots->others));
      // About 2·n Gauss-Jordan steps make this error. Each has entries near 1 and a relative error
      // of 2^-53.
      EXPECT_LE(std::sqrt(static_cast<double>(wrong.energy())),
                0x1p-53 * static_cast<double>(n * n * rank));
    }
  }
}

// QR alone would choose bad pivots for this matrix (Kahan's, whose columns all look alike).
TEST(Pivoting, SwapsBoundTheMapOfAMatrixThatMisleadsQr) {
  const int64_t rank = 24, n = 30;
  const double c = 0.285, s = std::sqrt(1.0 - c * c);
  std::mt19937_64 random(kPivotSeed);
  DoubleMatrix basis(n, rank);
  for (int64_t j = 0; j < rank; ++j) {
    double scale = 1.0;
    for (int64_t i = 0; i <= j; ++i, scale *= s) basis(j, i) = i == j ? scale : -c * scale;
  }
  std::normal_distribution<double> normal(0.0, 1e-3);
  for (int64_t j = rank; j < n; ++j) {
    for (int64_t i = 0; i < rank; ++i) basis(j, i) = normal(random);
  }
  const auto pivots = choose_pivots(basis);
  ASSERT_TRUE(pivots.ok()) << pivots.error().message;
  EXPECT_LE(pivots->largest(), 1.05);
  const LongMatrix wrong = LongMatrix(pivots->map) * LongMatrix(basis.rows_at(pivots->index)) -
                           LongMatrix(basis.rows_at(pivots->others));
  EXPECT_LE(std::sqrt(static_cast<double>(wrong.energy())),
            0x1p-53 * static_cast<double>(n * n * rank));
}

// The pivots of unit vectors are known, and their map is 0.
TEST(Pivoting, UnitVectorsAreTheirOwnPivots) {
  DoubleMatrix basis(7, 3);
  basis(5, 0) = basis(1, 1) = 1.0;
  basis(4, 2) = -1.0;
  const auto pivots = choose_pivots(basis);
  ASSERT_TRUE(pivots.ok());
  EXPECT_EQ(pivots->index, (std::vector<int32_t>{1, 4, 5}));
  EXPECT_EQ(pivots->others, (std::vector<int32_t>{0, 2, 3, 6}));
  EXPECT_EQ(pivots->largest(), 0.0);
}

struct Problem {
  std::vector<DoubleMatrix> weights;
  std::vector<std::vector<double>> row_weights;
  LongMatrix root;
  DoubleMatrix gram;

  std::vector<InputWeight> inputs() const {
    std::vector<InputWeight> out;
    for (size_t i = 0; i < weights.size(); ++i) out.push_back({&weights[i], row_weights[i]});
    return out;
  }
  LongMatrix whitened() const {
    std::vector<LongMatrix> matrices;
    for (const DoubleMatrix& weight : weights) matrices.emplace_back(weight);
    return stacked(matrices, row_weights) * root;
  }
};

Problem random_problem(int64_t k, const std::vector<int64_t>& rows, double kappa, int64_t null,
                       std::mt19937_64& random) {
  Problem problem{{}, {}, graded_root(k, kappa, null, random), {}};
  for (const int64_t n : rows) {
    problem.weights.push_back(random_matrix(n, k, random));
    problem.row_weights.push_back(random_weights(n, random));
  }
  problem.gram = gram_of_root(problem.root);
  return problem;
}

// Returns the loss of the narrowed weights, with the weights rounded as they will be stored.
double loss_of_input(const Problem& problem, const NarrowInput& narrow,
                     const StoredFormat& stored) {
  const int64_t k = problem.gram.rows();
  std::vector<LongMatrix> errors;
  for (size_t m = 0; m < problem.weights.size(); ++m) {
    DoubleMatrix kept = narrow.weights_t[m];
    round_to(stored, kept);
    LongMatrix error(problem.weights[m]);
    int64_t other = 0, pivot = 0;
    for (int64_t j = 0; j < k; ++j) {
      const bool is_pivot = pivot < std::ssize(narrow.index) && narrow.index[size_t(pivot)] == j;
      for (int64_t i = 0; i < error.rows; ++i) {
        if (is_pivot) {
          error(i, j) -= kept(i, pivot);
          continue;
        }
        for (int64_t p = 0; p < kept.columns(); ++p) {
          error(i, j) -= static_cast<long double>(kept(i, p)) * narrow.d(p, other);
        }
      }
      is_pivot ? ++pivot : ++other;
    }
    errors.push_back(std::move(error));
  }
  return 0.5 * static_cast<double>((stacked(errors, problem.row_weights) * problem.root).energy());
}

// Expects a loss close to that of the best factors. Rounding may add a few times what it costs the
// dense weights, because maps and weights are both rounded. The factor 4 covers that, scales of
// int8 that fit less well, and the ridge in directions that the text hardly ever visits.
void expect_near_best(double lost, double best, double all, double dense_rounding,
                      const StoredFormat& stored) {
  EXPECT_GE(lost, best - 1e-12 * all);
  EXPECT_LE(lost, best + 1e-11 * all + 4.0 * dense_rounding);
  const auto* const few = std::get_if<LowBitFormat>(&stored);
  // Rounding to few bits costs more than the bound below, and so does any rounding if the optimum
  // is small.
  if (best < 0.02 * all || (few != nullptr && few->bits < 8)) return;
  const double excess = stored == StoredFormat(DType::kF32)    ? 1e-6
                        : stored == StoredFormat(DType::kBF16) ? 1e-3
                                                               : 1e-2;
  EXPECT_LE(lost, best * (1.0 + excess));
}

LongMatrix rounding_error(const DoubleMatrix& weight, const StoredFormat& stored) {
  DoubleMatrix rounded = weight;
  round_to(stored, rounded);
  return LongMatrix(weight) - LongMatrix(rounded);
}

TEST(Pivoting, InputLossesAreTheDiscardedSingularValues) {
  std::mt19937_64 random(kPivotSeed);
  for (const double kappa : {1e2, 1e6, 1e12}) {
    for (const int64_t null : {0, 5}) {
      SCOPED_TRACE(fmt::format("kappa {}, {} never visited, seed {}", kappa, null, kPivotSeed));
      const Problem problem = random_problem(24, {20, 36}, kappa, null, random);
      const auto losses =
          input_losses(weighted_square(problem.inputs()), rounded_doubles(problem.root));
      ASSERT_TRUE(losses.ok());
      const std::vector<double> expected = losses_of_ranks(problem.whitened());
      ASSERT_EQ(losses->size(), expected.size());
      EXPECT_EQ(losses->back(), 0.0);
      for (size_t rank = 0; rank < expected.size(); ++rank) {
        // Every eigenvalue has an error of n·2^-53 of the largest, and n of them are added.
        EXPECT_NEAR((*losses)[rank], expected[rank], 24 * 24 * 0x1p-53 * expected[0]) << rank;
      }
    }
  }
}

TEST(Pivoting, ANarrowInputLosesNoMoreThanTheBestFactors) {
  std::mt19937_64 random(kPivotSeed);
  const int64_t k = 32;
  for (const double kappa : {1e2, 1e4, 1e6, 1e9, 1e12}) {
    const Problem problem = random_problem(k, {40, 40}, kappa, 0, random);
    const std::vector<double> best = losses_of_ranks(problem.whitened());
    for (const StoredFormat& stored : kStoredFormats) {
      for (const int64_t rank : {1, 8, 20, 31}) {
        SCOPED_TRACE(fmt::format("kappa {}, rank {}, format {}, seed {}", kappa, rank,
                                 stored.index(), kPivotSeed));
        const auto narrow = narrow_input(problem.inputs(), problem.gram,
                                         rounded_doubles(problem.root), rank, stored);
        ASSERT_TRUE(narrow.ok()) << narrow.error().message;
        EXPECT_LE(narrow->largest, 1.05);
        const double lost = loss_of_input(problem, *narrow, stored);
        std::vector<LongMatrix> rounding;
        for (const DoubleMatrix& weight : problem.weights) {
          rounding.push_back(rounding_error(weight, stored));
        }
        const LongMatrix whitened = stacked(rounding, problem.row_weights) * problem.root;
        expect_near_best(lost, best[size_t(rank)], best[0],
                         0.5 * static_cast<double>(whitened.energy()), stored);
      }
    }
  }
}

// With as many pivots as the text has directions, the narrowed weights lose nothing.
TEST(Pivoting, ANarrowInputOfTheGramMatrixsRankLosesNothing) {
  std::mt19937_64 random(kPivotSeed);
  for (const int64_t null : {1, 7, 23}) {
    const int64_t k = 24, rank = k - null;
    SCOPED_TRACE(fmt::format("rank {} of {}, seed {}", rank, k, kPivotSeed));
    const Problem problem = random_problem(k, {30}, 1e3, null, random);
    const auto narrow = narrow_input(problem.inputs(), problem.gram, rounded_doubles(problem.root),
                                     rank, DType::kF64);
    ASSERT_TRUE(narrow.ok()) << narrow.error().message;
    EXPECT_LE(narrow->largest, 1.05);
    const double all = losses_of_ranks(problem.whitened())[0];
    EXPECT_LE(loss_of_input(problem, *narrow, DType::kF64), 1e-14 * all);
  }
}

// If the text is all zeros or a single token, any pivots are right, and all results are finite.
TEST(Pivoting, ATextOfZerosOrOneTokenIsNoError) {
  std::mt19937_64 random(kPivotSeed);
  const int64_t k = 12;
  for (const int64_t visited : {0, 1}) {
    for (const int64_t rank : {1, 6, 11}) {
      SCOPED_TRACE(fmt::format("{} directions, rank {}, seed {}", visited, rank, kPivotSeed));
      Problem problem = random_problem(k, {16}, 1.0, k - visited, random);
      const auto narrow = narrow_input(problem.inputs(), problem.gram,
                                       rounded_doubles(problem.root), rank, DType::kF64);
      ASSERT_TRUE(narrow.ok()) << narrow.error().message;
      expect_finite(narrow->d);
      expect_finite(narrow->weights_t[0]);
      EXPECT_LE(narrow->largest, 1.05);
      const double all = losses_of_ranks(problem.whitened())[0];
      EXPECT_LE(loss_of_input(problem, *narrow, DType::kF64), 1e-14 * all);

      const DoubleMatrix metric = gram_of_root(problem.root);
      const auto output = narrow_output(transposed(problem.weights[0].first_rows(k)), problem.gram,
                                        metric, rounded_doubles(problem.root), rank, DType::kF64);
      ASSERT_TRUE(output.ok()) << output.error().message;
      expect_finite(output->c);
      expect_finite(output->w_t);
    }
  }
}

struct OutputProblem {
  DoubleMatrix w_t, gram_out, metric;
  LongMatrix inputs_root, metric_root;

  // Returns Rᵀ·error·S, the weighted form of an error of the weight.
  LongMatrix weighted(const LongMatrix& error) const {
    return flipped(metric_root) * error * inputs_root;
  }
};

OutputProblem random_output_problem(int64_t n, int64_t k, double kappa, int64_t null,
                                    double metric_kappa, std::mt19937_64& random) {
  OutputProblem problem{random_matrix(n, k, random),
                        {},
                        {},
                        graded_root(k, kappa, null, random),
                        graded_root(n, metric_kappa, 0, random)};
  const LongMatrix outputs = LongMatrix(problem.w_t) * problem.inputs_root;
  problem.gram_out = rounded_doubles(outputs * flipped(outputs));
  problem.metric = gram_of_root(problem.metric_root);
  return problem;
}

double loss_of_output(const OutputProblem& problem, const NarrowOutput& narrow,
                      const StoredFormat& stored) {
  DoubleMatrix kept = narrow.w_t;
  round_to(stored, kept);
  LongMatrix error(problem.w_t);
  int64_t other = 0, pivot = 0;
  for (int64_t i = 0; i < error.rows; ++i) {
    const bool is_pivot = pivot < std::ssize(narrow.index) && narrow.index[size_t(pivot)] == i;
    for (int64_t j = 0; j < error.columns; ++j) {
      if (is_pivot) {
        error(i, j) -= kept(pivot, j);
        continue;
      }
      for (int64_t p = 0; p < kept.rows(); ++p) {
        error(i, j) -= static_cast<long double>(narrow.c(other, p)) * kept(p, j);
      }
    }
    is_pivot ? ++pivot : ++other;
  }
  return 0.5 * static_cast<double>(problem.weighted(error).energy());
}

TEST(Pivoting, ANarrowOutputLosesNoMoreThanTheBestFactors) {
  std::mt19937_64 random(kPivotSeed);
  const int64_t n = 32;
  for (const double kappa : {1e2, 1e4, 1e6, 1e9, 1e12}) {
    for (const double metric_kappa : {1.0, 1e4}) {
      const OutputProblem problem = random_output_problem(n, 48, kappa, 0, metric_kappa, random);
      const std::vector<double> best = losses_of_ranks(problem.weighted(LongMatrix(problem.w_t)));
      for (const StoredFormat& stored : kStoredFormats) {
        for (const int64_t rank : {1, 8, 20, 31}) {
          SCOPED_TRACE(fmt::format("kappa {}, metric {}, rank {}, format {}, seed {}", kappa,
                                   metric_kappa, rank, stored.index(), kPivotSeed));
          const auto narrow = narrow_output(problem.w_t, problem.gram_out, problem.metric,
                                            rounded_doubles(problem.metric_root), rank, stored);
          ASSERT_TRUE(narrow.ok()) << narrow.error().message;
          EXPECT_LE(narrow->largest, 1.05);
          const LongMatrix rounding = problem.weighted(rounding_error(problem.w_t, stored));
          expect_near_best(loss_of_output(problem, *narrow, stored), best[size_t(rank)], best[0],
                           0.5 * static_cast<double>(rounding.energy()), stored);
        }
      }
    }
  }
}

}  // namespace
}  // namespace neuronmm::compress
