// Attention and the KV cache against the fp64 reference backend.

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "cpu/error_bounds.h"
#include "cpu/on_every_target.h"
#include "ops/owned_tensor.h"
#include "ops/reference.h"

namespace neuronmm::cpu {
namespace {

constexpr uint64_t kSeed = 13;

double largest_norm(ConstMatrixView x, int64_t head_dim) {
  double largest = 0;
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t first = 0; first < x.columns; first += head_dim) {
      double sum = 0;
      for (int64_t d = 0; d < head_dim; ++d) sum += std::pow(x.row(i)[first + d], 2);
      largest = std::max(largest, std::sqrt(sum));
    }
  }
  return largest;
}

double largest_value(ConstMatrixView x) {
  double largest = 0;
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < x.columns; ++j) {
      largest = std::max(largest, std::abs(static_cast<double>(x.row(i)[j])));
    }
  }
  return largest;
}

// A sequence of tokens for one attention layer.
struct Tokens {
  Tokens(const ops::AttentionShape& s, int64_t count, std::mt19937_64& random)
      : shape(s),
        q(random_matrix(count, s.num_attention_heads * s.head_dim, random)),
        k(random_matrix(count, s.num_key_value_heads * s.head_dim, random)),
        v(random_matrix(count, s.num_key_value_heads * s.head_dim, random)) {}

  // An error of a score by e changes a probability by a factor of exp(+-2e); scores are sums of
  // head_dim products and have their maximum subtracted; exp is right to 1 ulp.
  double tolerance() const {
    const double dim = static_cast<double>(shape.head_dim);
    const double score = largest_norm(q.view(), shape.head_dim) *
                         largest_norm(k.view(), shape.head_dim) / std::sqrt(dim);
    const double score_error = (sum_error(shape.head_dim) + 4 * kUnit) * score;
    return (2 * score_error + 2 * sum_error(q.rows()) + 8 * kUnit) * largest_value(v.view());
  }

  // Runs tokens [first, first + count), which must be the cache's next.
  void run(const ops::Backend& backend, int64_t layer, int64_t first, int64_t count,
           ops::KvCache& cache, Matrix& y) const {
    backend.attention(shape, layer, q.view().row_range(first, count),
                      k.view().row_range(first, count), v.view().row_range(first, count), cache,
                      y.view().row_range(first, count));
  }
  // All of them, `pieces` tokens at a time.
  Matrix run_all(const ops::Backend& backend, int64_t piece) const {
    const auto cache = backend.make_kv_cache(
        {1, shape.num_key_value_heads, shape.head_dim, std::max<int64_t>(q.rows(), 1)});
    Matrix y(q.rows(), q.columns());
    for (int64_t first = 0; first < q.rows(); first += piece) {
      const int64_t count = std::min(piece, q.rows() - first);
      run(backend, 0, first, count, *cache, y);
      cache->set_length(first + count);
    }
    return y;
  }

  ops::AttentionShape shape;
  Matrix q, k, v;
};

void expect_near(const Matrix& expected, const Matrix& found, double tolerance) {
  for (int64_t i = 0; i < expected.rows(); ++i) {
    for (int64_t j = 0; j < expected.columns(); ++j) {
      ASSERT_NEAR(found.row(i)[j], expected.row(i)[j], tolerance) << "at " << i << ", " << j;
    }
  }
}

class Attention : public OnEveryTarget {
 protected:
  void expect_right(const ops::AttentionShape& shape, int64_t tokens,
                    std::initializer_list<int64_t> pieces) {
    SCOPED_TRACE(testing::Message()
                 << "seed " << kSeed << ", heads " << shape.num_attention_heads << "/"
                 << shape.num_key_value_heads << " x " << shape.head_dim << ", window "
                 << shape.sliding_window << ", tokens " << tokens);
    const Tokens t(shape, tokens, random_);
    const Matrix expected = t.run_all(*reference_, tokens);
    for (const int64_t piece : pieces) {
      SCOPED_TRACE(testing::Message() << "in pieces of " << piece);
      expect_near(expected, t.run_all(*backend_, piece), t.tolerance());
    }
  }

  std::mt19937_64 random_{kSeed};
  std::unique_ptr<ops::Backend> backend_ = make_backend();
  std::unique_ptr<ops::Backend> reference_ = ops::make_reference_backend();
};
NMM_ON_EVERY_TARGET(Attention);

TEST_P(Attention, HeadShapesWindowsAndPieces) {
  for (const auto& [heads, kv_heads] : {std::pair{1, 1}, {4, 4}, {6, 2}, {14, 2}}) {
    for (const int64_t head_dim : {2, 16, 40, 64}) {
      for (const int64_t window : {0, 1, 5, 33}) {
        expect_right({heads, kv_heads, head_dim, window}, 70, {1, 7, 70});
      }
    }
  }
}

TEST_P(Attention, EveryLength) {
  for (int64_t tokens = 1; tokens <= 40; ++tokens) {
    expect_right({2, 1, 8, 0}, tokens, {tokens});
  }
  expect_right({2, 1, 128, 0}, 300, {300, 299});
  expect_right({2, 1, 16, 150}, 300, {300, 64});
}

// Decoding at a long context splits the positions over tasks and adds the parts up.
TEST_P(Attention, LongContextIsSplit) {
  for (const int64_t window : {0, 1500}) {
    const ops::AttentionShape shape = {4, 2, 16, window};
    const Tokens t(shape, 2100, random_);
    const auto cache = backend_->make_kv_cache({1, 2, 16, 2100});
    const auto exact = reference_->make_kv_cache({1, 2, 16, 2100});
    Matrix y(2100, 64), expected(2100, 64);
    t.run(*backend_, 0, 0, 2097, *cache, y);
    t.run(*reference_, 0, 0, 2097, *exact, expected);
    cache->set_length(2097);
    exact->set_length(2097);
    t.run(*backend_, 0, 2097, 3, *cache, y);
    t.run(*reference_, 0, 2097, 3, *exact, expected);
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", window " << window);
    expect_near(expected, y, t.tolerance());
  }
}

TEST_P(Attention, NoTokensAreNothing) {
  const Tokens t({2, 1, 8, 0}, 0, random_);
  EXPECT_EQ(t.run_all(*backend_, 1).rows(), 0);
}

TEST_P(Attention, LayersDoNotShareTheirKeys) {
  const ops::AttentionShape shape = {2, 2, 8, 0};
  const Tokens a(shape, 5, random_), b(shape, 5, random_);
  const auto cache = backend_->make_kv_cache({2, 2, 8, 5});
  Matrix ya(5, 16), yb(5, 16);
  a.run(*backend_, 0, 0, 5, *cache, ya);
  b.run(*backend_, 1, 0, 5, *cache, yb);
  cache->set_length(4);
  a.run(*backend_, 0, 4, 1, *cache, ya);
  b.run(*backend_, 1, 4, 1, *cache, yb);
  expect_near(a.run_all(*reference_, 5), ya, a.tolerance());
  expect_near(b.run_all(*reference_, 5), yb, b.tolerance());
}

// Tokens that were forgotten leave no trace, even if they were NaN.
TEST_P(Attention, ForgottenTokensLeaveNoTrace) {
  const ops::AttentionShape shape = {2, 1, 8, 0};
  const Tokens t(shape, 50, random_);
  Tokens bad(shape, 50, random_);
  std::fill_n(bad.k.data(), 50 * 8, std::numeric_limits<float>::quiet_NaN());
  std::fill_n(bad.v.data(), 50 * 8, std::numeric_limits<float>::quiet_NaN());
  const auto cache = backend_->make_kv_cache({1, 1, 8, 50});
  Matrix y(50, 16);
  bad.run(*backend_, 0, 0, 50, *cache, y);
  EXPECT_TRUE(std::isnan(y.row(0)[0])) << "NaN must be seen where it is";
  cache->set_length(0);
  t.run(*backend_, 0, 0, 20, *cache, y);
  cache->set_length(20);
  t.run(*backend_, 0, 20, 17, *cache, y);
  const Matrix expected = t.run_all(*reference_, 50);
  for (int64_t i = 0; i < 37; ++i) {
    for (int64_t j = 0; j < 16; ++j) {
      ASSERT_NEAR(y.row(i)[j], expected.row(i)[j], t.tolerance()) << "at " << i << ", " << j;
    }
  }
}

// Scores of +-1000 overflow exp unless the maximum is subtracted.
TEST_P(Attention, LargeScores) {
  Tokens t({1, 1, 4, 0}, 200, random_);
  for (int64_t i = 0; i < 200 * 4; ++i) t.q.data()[i] *= 500.0f;
  expect_near(t.run_all(*reference_, 200), t.run_all(*backend_, 200), t.tolerance());
}

TEST_P(Attention, BitsDoNotDependOnThreads) {
  for (const int64_t piece : {1, 90}) {
    const Tokens t({6, 3, 24, 0}, 90, random_);
    set_num_threads(1);
    const Matrix expected = t.run_all(*backend_, piece);
    for (const int threads : {2, 3}) {
      set_num_threads(threads);
      const Matrix y = t.run_all(*backend_, piece);
      EXPECT_EQ(std::memcmp(y.data(), expected.data(), sizeof(float) * 90 * 144), 0)
          << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace neuronmm::cpu
