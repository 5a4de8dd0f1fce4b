// Tests of the reference backend against values computed by hand, against plain formulas in long
// double, and against properties of the operations.

#include "ops/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include <gtest/gtest.h>

#include "ops/owned_tensor.h"

namespace neuronmm::ops {
namespace {

// Expects a value that was computed in fp64 and rounded once to fp32, by half a unit in the last
// place.
void expect_rounded(float found, long double expected) {
  const long double half_ulp = 0x1p-24L * std::abs(expected);
  EXPECT_NEAR(static_cast<double>(found), static_cast<double>(expected),
              static_cast<double>(half_ulp) * 1.001 + 1e-44);
}

class Reference : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend = make_reference_backend();
  std::mt19937_64 random{20240229};
};

TEST_F(Reference, LinearMultipliesByTheTransposedWeightAndAddsTheBias) {
  const OwnedTensor w_t(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6}), bias(DType::kBF16, {2}, {10, 20});
  Matrix x(2, 3), y(2, 2);
  for (int j = 0; j < 3; ++j) x.row(0)[j] = 1.0f;
  x.row(1)[2] = 2.0f;
  backend->make_linear({.w_t = w_t.view(), .bias = bias.view()})->apply(x.view(), y.view());
  EXPECT_EQ(y.row(0)[0], 16.0f);
  EXPECT_EQ(y.row(0)[1], 35.0f);
  EXPECT_EQ(y.row(1)[0], 16.0f);
  EXPECT_EQ(y.row(1)[1], 32.0f);
}

TEST_F(Reference, LowRankAppliesUFirst) {
  // X·U is 5, so that Y is five times V. U and V have different dtypes.
  const OwnedTensor u_t(DType::kF16, {1, 2}, {2, 3}), v_t(DType::kF64, {2, 1}, {7, 11});
  Matrix x(1, 2), y(1, 2);
  x.row(0)[0] = x.row(0)[1] = 1.0f;
  const LinearWeight weight = {.u_t = u_t.view(), .v_t = v_t.view()};
  backend->make_linear(weight)->apply(x.view(), y.view());
  EXPECT_EQ(y.row(0)[0], 35.0f);
  EXPECT_EQ(y.row(0)[1], 55.0f);
  EXPECT_EQ(weight.in_features(), 2);
  EXPECT_EQ(weight.out_features(), 2);
  EXPECT_EQ(weight.rank(), 1);
  EXPECT_EQ(weight.parameters(), 4);
}

TEST_F(Reference, LinearOfNoTokensDoesNothing) {
  const OwnedTensor w_t(DType::kF32, {2, 3}, std::vector<float>(6, 1.0f));
  Matrix x(0, 3), y(0, 2);
  backend->make_linear({.w_t = w_t.view()})->apply(x.view(), y.view());
}

TEST_F(Reference, MlpIsSwiGlu) {
  const OwnedTensor gate(DType::kF32, {2, 1}, {1, -2}), up(DType::kF32, {2, 1}, {3, 5});
  const OwnedTensor down(DType::kF32, {1, 2}, {1, 10});
  Matrix x(1, 1), y(1, 1);
  x.row(0)[0] = 0.5f;
  const auto linear = [](const OwnedTensor& w_t) { return LinearWeight{.w_t = w_t.view()}; };
  backend->make_mlp({linear(gate), linear(up), linear(down)})->apply(x.view(), y.view());
  const auto silu = [](long double z) { return z / (1.0L + std::exp(-z)); };
  expect_rounded(y.row(0)[0], silu(0.5L) * 1.5L + 10.0L * silu(-1.0L) * 2.5L);
}

// Returns the whole matrix [N, K] that a pivoted weight A with map D or C stands for. Pivots of the
// input give A·[I D] with its columns in order, and pivots of the output [I; C]·A with its rows in
// order.
std::vector<long double> expanded(const LinearWeight& weight) {
  const Pivots& pivots = weight.in.empty() ? weight.out : weight.in;
  const bool of_input = !weight.in.empty();
  const int64_t rank = weight.rank(), n = weight.out_features(), k = weight.in_features();
  std::vector<double> a(static_cast<size_t>(weight.w_t.size()));
  std::vector<double> map(static_cast<size_t>(pivots.map_t.size()));
  to_doubles(weight.w_t, 0, weight.w_t.size(), a.data());
  to_doubles(pivots.map_t, 0, pivots.map_t.size(), map.data());
  // other_of[e] is the place of element e among those that are not pivots, or -1 for a pivot.
  std::vector<int64_t> other_of(static_cast<size_t>(pivots.features()), -1);
  int64_t others = 0;
  for (int32_t e = 0; e < pivots.features(); ++e) {
    if (std::ranges::find(pivots.index, e) == pivots.index.end())
      other_of[static_cast<size_t>(e)] = others++;
  }
  // Returns the factor between pivot p and element e of the wide side.
  const auto share = [&](int64_t e, int64_t p) -> long double {
    const int64_t other = other_of[static_cast<size_t>(e)];
    if (other < 0) return pivots.index[static_cast<size_t>(p)] == e ? 1.0L : 0.0L;
    return map[static_cast<size_t>(of_input ? p * others + other : other * rank + p)];
  };
  std::vector<long double> w(static_cast<size_t>(n * k));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      for (int64_t p = 0; p < rank; ++p) {
        w[static_cast<size_t>(i * k + j)] +=
            of_input ? static_cast<long double>(a[static_cast<size_t>(i * rank + p)]) * share(j, p)
                     : share(i, p) * static_cast<long double>(a[static_cast<size_t>(p * k + j)]);
      }
    }
  }
  return w;
}

TEST_F(Reference, InputPivotsAbsorbTheOtherInputs) {
  // The pivots are x1 and x3. The map adds the other inputs to them, t = (x1, x3) + map · (x0, x2),
  // and w_t makes y = t0 + 10·t1.
  const OwnedTensor w_t(DType::kF32, {1, 2}, {1, 10}), map(DType::kBF16, {2, 2}, {2, 3, 4, 5});
  const LinearWeight weight = {.w_t = w_t.view(), .in = {{1, 3}, map.view()}};
  Matrix x(1, 4), y(1, 1);
  std::iota(x.data(), x.data() + 4, 1.0f);
  backend->make_linear(weight)->apply(x.view(), y.view());
  EXPECT_EQ(y.row(0)[0], (2 + 2 * 1 + 3 * 3) + 10 * (4 + 4 * 1 + 5 * 3));
  EXPECT_EQ(non_pivots(weight.in), (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(weight.in_features(), 4);
  EXPECT_EQ(weight.out_features(), 1);
  EXPECT_EQ(weight.rank(), 2);
  EXPECT_EQ(weight.parameters(), 2 + 4);
  EXPECT_EQ(weight.stored_bytes(), 2 * 4 + 4 * 2);
}

TEST_F(Reference, OutputPivotsProduceTheOtherOutputs) {
  // z = (x0, 2·x0), y1 = z0, y2 = z1, y0 = 3·z0 + 4·z1.
  const OwnedTensor w_t(DType::kF32, {2, 1}, {1, 2}), map(DType::kF64, {1, 2}, {3, 4});
  const LinearWeight weight = {.w_t = w_t.view(), .out = {{1, 2}, map.view()}};
  Matrix x(1, 1), y(1, 3);
  x.row(0)[0] = 5.0f;
  backend->make_linear(weight)->apply(x.view(), y.view());
  EXPECT_EQ(y.row(0)[0], 3 * 5 + 4 * 10);
  EXPECT_EQ(y.row(0)[1], 5);
  EXPECT_EQ(y.row(0)[2], 10);
  EXPECT_EQ(weight.in_features(), 1);
  EXPECT_EQ(weight.out_features(), 3);
}

TEST_F(Reference, PivotedLayersEqualTheirWholeMatrix) {
  for (const bool of_input : {true, false}) {
    for (const int64_t rank : {1, 4, 8}) {
      const int64_t wide = 9, narrow = 6, m = 3;
      std::vector<int32_t> index(static_cast<size_t>(wide));
      std::iota(index.begin(), index.end(), 0);
      std::ranges::shuffle(index, random);
      index.resize(static_cast<size_t>(rank));
      std::ranges::sort(index);
      const Shape shape = of_input ? Shape{narrow, rank} : Shape{rank, narrow};
      const Shape map_shape = of_input ? Shape{rank, wide - rank} : Shape{wide - rank, rank};
      const OwnedTensor w_t(DType::kF32, shape, random_values(narrow * rank, random));
      const OwnedTensor map(DType::kF32, map_shape, random_values(rank * (wide - rank), random));
      LinearWeight weight = {.w_t = w_t.view()};
      Pivots& pivots = of_input ? weight.in : weight.out;
      pivots = Pivots{index, map.view()};
      const int64_t k = weight.in_features(), n = weight.out_features();
      const std::vector<long double> whole = expanded(weight);
      const Matrix x = random_matrix(m, k, random);
      Matrix y(m, n);
      backend->make_linear(weight)->apply(x.view(), y.view());
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          long double sum = 0, absolute = 0;
          for (int64_t l = 0; l < k; ++l) {
            const long double term =
                whole[static_cast<size_t>(j * k + l)] * static_cast<long double>(x.row(i)[l]);
            sum += term;
            absolute += std::abs(term);
          }
          // The tolerance is one rounding to fp32 plus those of fp64 sums whose terms may cancel.
          EXPECT_NEAR(y.row(i)[j], static_cast<double>(sum),
                      static_cast<double>(0x1p-24L * std::abs(sum) + 0x1p-46L * absolute) + 1e-12)
              << "of input " << of_input << ", rank " << rank;
        }
      }
    }
  }
}

TEST_F(Reference, GateAndUpMayShareInputPivots) {
  // t = x1 + 2·x0, gate = t and up = 3·t. Down makes y0, and its map makes y1 = 5·y0.
  const OwnedTensor one(DType::kF32, {1, 1}, {1}), three(DType::kF32, {1, 1}, {3});
  const OwnedTensor two(DType::kF32, {1, 1}, {2}), five(DType::kF32, {1, 1}, {5});
  const MlpWeight weight = {.gate = {.w_t = one.view()},
                            .up = {.w_t = three.view()},
                            .down = {.w_t = one.view(), .out = {{0}, five.view()}},
                            .in = {{1}, two.view()}};
  EXPECT_EQ(weight.in_features(), 2);
  EXPECT_EQ(weight.neurons(), 1);
  Matrix x(1, 2), y(1, 2);
  x.row(0)[0] = 0.5f;
  x.row(0)[1] = -0.25f;
  backend->make_mlp(weight)->apply(x.view(), y.view());
  const long double t = 0.75L, inner = t / (1.0L + std::exp(-t)) * 3.0L * t;
  expect_rounded(y.row(0)[0], inner);
  expect_rounded(y.row(0)[1], 5.0L * inner);
}

TEST_F(Reference, RmsNormFollowsItsFormulaAndWorksInPlace) {
  Matrix x(2, 2);
  x.row(0)[0] = 3.0f;
  x.row(0)[1] = 4.0f;
  const std::vector<float> weight = {2.0f, 0.5f};
  backend->rms_norm(x.view(), weight, 0.5f, x.view());
  const long double root = std::sqrt(12.5L + 0.5L);
  expect_rounded(x.row(0)[0], 3.0L / root * 2.0L);
  expect_rounded(x.row(0)[1], 4.0L / root * 0.5L);
  EXPECT_EQ(x.row(1)[0], 0.0f);  // eps keeps a zero row finite
}

TEST_F(Reference, RopeRotatesHalfSplitPairsByPosition) {
  // In each of the two heads, elements 0 and 2 are a pair, and so are elements 1 and 3.
  Matrix x(1, 8);
  std::iota(x.data(), x.data() + 8, 1.0f);
  backend->rope(x.view(), 4, std::vector<int64_t>{3}, {{0.5f, 0.25f}, 1.5f});
  for (int head = 0; head < 2; ++head) {
    for (int j = 0; j < 2; ++j) {
      const long double a = 4 * head + j + 1, b = a + 2;
      const long double angle = 3.0L * (j == 0 ? 0.5L : 0.25L);
      expect_rounded(x.row(0)[4 * head + j], 1.5L * (a * std::cos(angle) - b * std::sin(angle)));
      expect_rounded(x.row(0)[4 * head + j + 2],
                     1.5L * (b * std::cos(angle) + a * std::sin(angle)));
    }
  }
}

TEST_F(Reference, RopeDependsOnTheAbsolutePositionOfEachRow) {
  const RotaryEmbedding rotary = {{1.0f, 0.1f, 0.01f}};
  Matrix whole = random_matrix(5, 6, random), parts = whole;
  const std::vector<int64_t> positions = {7, 8, 0, 500, 7};
  backend->rope(whole.view(), 6, positions, rotary);
  backend->rope(parts.view().row_range(0, 2), 6, std::span(positions).first(2), rotary);
  backend->rope(parts.view().row_range(2, 3), 6, std::span(positions).subspan(2), rotary);
  for (int64_t i = 0; i < 30; ++i) EXPECT_EQ(whole.data()[i], parts.data()[i]);
}

struct AttentionCase {
  AttentionShape shape;
  int64_t tokens;
};

// Returns element (i, head, d) of softmax(Q K^T / sqrt(head_dim) + mask) V in long double.
long double naive_attention(const AttentionCase& c, const Matrix& q, const Matrix& k,
                            const Matrix& v, int64_t i, int64_t head, int64_t d) {
  const int64_t dim = c.shape.head_dim;
  const int64_t kv_head = head * c.shape.num_key_value_heads / c.shape.num_attention_heads;
  long double numerator = 0.0L, denominator = 0.0L;
  for (int64_t j = 0; j < c.tokens; ++j) {
    const bool in_window = c.shape.sliding_window == 0 || i - j < c.shape.sliding_window;
    if (j > i || !in_window) continue;
    long double score = 0.0L;
    for (int64_t e = 0; e < dim; ++e)
      score += static_cast<long double>(q.row(i)[head * dim + e]) *
               static_cast<long double>(k.row(j)[kv_head * dim + e]);
    const long double weight = std::exp(score / std::sqrt(static_cast<long double>(dim)));
    numerator += weight * static_cast<long double>(v.row(j)[kv_head * dim + d]);
    denominator += weight;
  }
  return numerator / denominator;
}

TEST_F(Reference, AttentionMatchesTheWholeMatrixFormulaHoweverTheTokensArrive) {
  const std::vector<AttentionCase> cases = {{{1, 1, 2, 0}, 1},
                                            {{4, 4, 6, 0}, 5},
                                            {{6, 2, 4, 0}, 9},
                                            {{6, 3, 4, 3}, 9},
                                            {{2, 1, 8, 1}, 4}};
  for (const AttentionCase& c : cases) {
    const AttentionShape& shape = c.shape;
    const Matrix q = random_matrix(c.tokens, shape.num_attention_heads * shape.head_dim, random);
    const Matrix k = random_matrix(c.tokens, shape.num_key_value_heads * shape.head_dim, random);
    const Matrix v = random_matrix(c.tokens, shape.num_key_value_heads * shape.head_dim, random);
    for (int64_t split = 0; split < c.tokens; ++split) {
      const auto cache =
          backend->make_kv_cache({2, shape.num_key_value_heads, shape.head_dim, c.tokens});
      Matrix y(c.tokens, q.columns());
      const auto run = [&](int64_t first, int64_t count) {
        cache->set_length(first);
        const SequenceRows batch[] = {{cache.get(), count}};
        backend->attention(shape, 1, q.view().row_range(first, count),
                           k.view().row_range(first, count), v.view().row_range(first, count),
                           batch, y.view().row_range(first, count));
        EXPECT_EQ(cache->length(), first) << "attention must not move the cache";
      };
      if (split > 0) run(0, split);
      run(split, c.tokens - split);
      for (int64_t i = 0; i < c.tokens; ++i) {
        for (int64_t column = 0; column < q.columns(); ++column) {
          const long double expected =
              naive_attention(c, q, k, v, i, column / shape.head_dim, column % shape.head_dim);
          // Cancellation in the fp64 sum over j leaves at most tokens · 2^-53 · max|v| on top of
          // the final rounding.
          EXPECT_NEAR(static_cast<double>(y.row(i)[column]), static_cast<double>(expected),
                      static_cast<double>(std::abs(expected)) * 0x1p-24 + 1e-13);
        }
      }
    }
  }
}

TEST_F(Reference, AttentionSurvivesScoresBeyondTheRangeOfExp) {
  const AttentionShape shape = {1, 1, 2, 0};
  const auto cache = backend->make_kv_cache({1, 1, 2, 2});
  Matrix q(2, 2), k(2, 2), v(2, 2), y(2, 2);
  q.row(1)[0] = 1e4f;
  k.row(1)[0] = 1e4f;  // the score 7e7 makes token 1 attend to itself alone
  v.row(0)[0] = 3.0f;
  v.row(1)[0] = 5.0f;
  const SequenceRows batch[] = {{cache.get(), 2}};
  backend->attention(shape, 0, q.view(), k.view(), v.view(), batch, y.view());
  EXPECT_EQ(y.row(0)[0], 3.0f);
  EXPECT_EQ(y.row(1)[0], 5.0f);
}

TEST_F(Reference, SequencesOfABatchDoNotSeeEachOther) {
  const AttentionShape shape = {2, 1, 4, 0};
  const Matrix q = random_matrix(7, 8, random), k = random_matrix(7, 4, random),
               v = random_matrix(7, 4, random);
  const auto caches = [&] {
    std::vector<std::unique_ptr<KvCache>> made;
    for (int i = 0; i < 3; ++i) made.push_back(backend->make_kv_cache({1, 1, 4, 4}));
    return made;
  };
  const auto together = caches(), alone = caches();
  const SequenceRows batch[] = {
      {together[0].get(), 2}, {together[1].get(), 1}, {together[2].get(), 4}};
  Matrix y(7, 8), expected(7, 8);
  backend->attention(shape, 0, q.view(), k.view(), v.view(), batch, y.view());
  int64_t first = 0;
  for (size_t i = 0; i < 3; ++i) {
    const int64_t rows = batch[i].rows;
    const SequenceRows one[] = {{alone[i].get(), rows}};
    backend->attention(shape, 0, q.view().row_range(first, rows), k.view().row_range(first, rows),
                       v.view().row_range(first, rows), one,
                       expected.view().row_range(first, rows));
    first += rows;
  }
  for (int64_t i = 0; i < 56; ++i) EXPECT_EQ(y.data()[i], expected.data()[i]);
}

TEST_F(Reference, AddAccumulatesIntoItsSecondArgument) {
  Matrix x(1, 2), y(1, 2);
  x.row(0)[0] = 1.0f;
  y.row(0)[0] = y.row(0)[1] = 2.0f;
  backend->add(x.view(), y.view());
  EXPECT_EQ(y.row(0)[0], 3.0f);
  EXPECT_EQ(y.row(0)[1], 2.0f);
}

}  // namespace
}  // namespace neuronmm::ops
