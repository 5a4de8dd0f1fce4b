#include "compress/factors/neuron_order.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "compress/whitened_oracle.h"

namespace neuronmm::compress {
namespace {

// Returns the loss of each of the neurons `left` (S) if it is removed next. The function solves for
// A·C[:, S]·C[S, S]⁻¹ from scratch. A loss is the square of the neuron's column over the diagonal
// element of C[S, S]⁻¹.
std::vector<long double> losses_one_more(const DoubleMatrix& weighted, const DoubleMatrix& gram,
                                         const std::vector<int32_t>& left) {
  const LongMatrix own(gram.rows_at(left).columns_at(left));
  const LongMatrix with_best =
      solved(own, LongMatrix(gram.rows_at(left)) * flipped(LongMatrix(weighted)));
  LongMatrix one(std::ssize(left), std::ssize(left));
  for (int64_t j = 0; j < one.rows; ++j) one(j, j) = 1;
  const LongMatrix inverse = solved(own, one);
  std::vector<long double> losses;
  for (int64_t j = 0; j < one.rows; ++j) {
    long double square = 0;
    for (int64_t i = 0; i < with_best.columns; ++i) square += with_best(j, i) * with_best(j, i);
    losses.push_back(square / inverse(j, j));
  }
  return losses;
}

// There are more neurons than are removed in one block. If rounding makes two losses equal, either
// neuron may go first.
TEST(NeuronOrder, BlockwiseRemovalTakesTheCheapestNeuronEachTime) {
  constexpr int64_t kRows = 12, kNeurons = 90;
  for (const uint64_t seed : {uint64_t{1}, uint64_t{2}, uint64_t{3}}) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    const DoubleMatrix weighted = random_matrix(kRows, kNeurons, random);
    DoubleMatrix gram = gram_of_root(graded_root(kNeurons, 1e3, 0, random));
    // Some neurons are nearly copies of others.
    for (int64_t j = 0; j < 20; ++j) {
      for (int64_t i = 0; i < kNeurons; ++i) gram(i, j + 70) = gram(i, j);
      for (int64_t i = 0; i < kNeurons; ++i) gram(j + 70, i) = gram(j, i);
    }
    double mean = 0.0;
    for (const double value : diagonal(gram)) mean += value / kNeurons;
    for (int64_t j = 0; j < kNeurons; ++j) gram(j, j) += 1e-6 * mean;
    const auto order = neuron_order(weighted, gram);
    ASSERT_TRUE(order.ok()) << order.error().message;
    std::vector<int32_t> left(kNeurons);
    std::iota(left.begin(), left.end(), 0);
    EXPECT_TRUE(std::ranges::is_permutation(*order, left));
    for (int64_t k = kNeurons; k-- > 0;) {
      const std::vector<long double> losses = losses_one_more(weighted, gram, left);
      const auto at = std::ranges::find(left, (*order)[size_t(k)]);
      ASSERT_NE(at, left.end());
      const long double least = *std::ranges::min_element(losses);
      // Rounding errors grow with the condition number of the Gram matrix, which the ridge keeps
      // below 1e9.
      EXPECT_LE(losses[size_t(at - left.begin())], least * (1 + 1e-6L)) << "place " << k;
      left.erase(at);
    }
  }
}

}  // namespace
}  // namespace neuronmm::compress
