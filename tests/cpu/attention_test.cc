// This test compares attention and the KV cache with the fp64 reference backend.

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/float16.h"
#include "cpu/error_bounds.h"
#include "cpu/hadamard.h"
#include "cpu/kv_cache.h"
#include "cpu/on_every_target.h"
#include "ops/owned_tensor.h"
#include "ops/reference.h"

namespace neuronmm::cpu {
namespace {

constexpr uint64_t kAttentionSeed = 13;

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

// Rounds values to bf16, so that a bf16 cache changes nothing and fp32's tolerance applies.
void round_to_bf16(Matrix& x) {
  for (int64_t i = 0; i < x.rows() * x.columns(); ++i) {
    x.data()[i] = bf16::from_float(x.data()[i]).to_float();
  }
}

// Rounds every head of every row to bytes times a scale, so that a cache of int8 changes nothing.
// Keys are rounded where they are rotated.
void round_to_bytes(Matrix& x, int64_t head_dim, bool keys) {
  for (float* head = x.data(); head < x.data() + x.rows() * x.columns(); head += head_dim) {
    if (keys) rotate_by_hadamard(head, head_dim);
    float largest = 0;
    for (int64_t d = 0; d < head_dim; ++d) largest = std::max(largest, std::abs(head[d]));
    const float scale = largest / 127;
    for (int64_t d = 0; d < head_dim; ++d) head[d] = std::nearbyint(head[d] / scale) * scale;
    if (keys) rotate_by_hadamard(head, head_dim);
  }
}

// Random queries, keys and values of a sequence for one attention layer.
struct Tokens {
  Tokens(const ops::AttentionShape& s, int64_t count, std::mt19937_64& random,
         DType dtype_of_cache = DType::kF32)
      : shape(s),
        dtype(dtype_of_cache),
        q(random_matrix(count, s.num_attention_heads * s.head_dim, random)),
        k(random_matrix(count, s.num_key_value_heads * s.head_dim, random)),
        v(random_matrix(count, s.num_key_value_heads * s.head_dim, random)) {
    if (dtype == DType::kBF16) {
      round_to_bf16(k);
      round_to_bf16(v);
    }
    if (dtype == DType::kI8) {
      round_to_bytes(k, shape.head_dim, true);
      round_to_bytes(v, shape.head_dim, false);
    }
  }

  // An error e of a score changes a probability by a factor of exp(+-2e). Scores are sums of
  // head_dim products, from which their maximum is subtracted. Powers have an error of 1 ulp, and
  // scales of int8 one of two roundings.
  double tolerance() const {
    const double dim = static_cast<double>(shape.head_dim);
    const double score = largest_norm(q.view(), shape.head_dim) *
                         largest_norm(k.view(), shape.head_dim) / std::sqrt(dim);
    const double score_error = (sum_error(shape.head_dim) + 8 * kUnit + of_rounding()) * score;
    return (2 * score_error + 2 * sum_error(q.rows()) + 12 * kUnit + 2 * of_rounding()) *
           largest_value(v.view());
  }

  // Products of bf16 round queries and probabilities, by up to 2^-9 of their values. Powers then
  // have an error of 2.7e-6.
  double of_rounding() const {
    return dtype != DType::kF32 && current_rounds_to_bf16 ? 0x1p-9 + 2.7e-6 : 0;
  }

  // Runs tokens [first, first + count), which must be the cache's next.
  void run(const ops::Backend& backend, int64_t layer, int64_t first, int64_t count,
           ops::KvCache& cache, Matrix& y) const {
    const ops::SequenceRows batch[] = {{&cache, count}};
    backend.attention(shape, layer, q.view().row_range(first, count),
                      k.view().row_range(first, count), v.view().row_range(first, count), batch,
                      y.view().row_range(first, count));
  }
  // Runs all tokens, `piece` tokens at a time.
  Matrix run_all(const ops::Backend& backend, int64_t piece) const {
    const auto cache = backend.make_kv_cache(
        {1, shape.num_key_value_heads, shape.head_dim, std::max<int64_t>(q.rows(), 1), dtype});
    Matrix y(q.rows(), q.columns());
    for (int64_t first = 0; first < q.rows(); first += piece) {
      const int64_t count = std::min(piece, q.rows() - first);
      run(backend, 0, first, count, *cache, y);
      cache->set_length(first + count);
    }
    return y;
  }

  ops::AttentionShape shape;
  DType dtype;
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
                 << "seed " << kAttentionSeed << ", heads " << shape.num_attention_heads << "/"
                 << shape.num_key_value_heads << " x " << shape.head_dim << ", window "
                 << shape.sliding_window << ", tokens " << tokens);
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8}) {
      const Tokens t(shape, tokens, random_, dtype);
      const Matrix expected = t.run_all(*reference_, tokens);
      for (const int64_t piece : pieces) {
        SCOPED_TRACE(testing::Message() << dtype_name(dtype) << ", in pieces of " << piece);
        expect_near(expected, t.run_all(*backend_, piece), t.tolerance());
      }
    }
  }

  std::mt19937_64 random_{kAttentionSeed};
  std::unique_ptr<ops::Backend> backend_ = make_backend(current_kernels());
  std::unique_ptr<ops::Backend> reference_ = ops::make_reference_backend();
};
NMM_ON_EVERY_TARGET(Attention);

TEST_P(Attention, HeadShapesWindowsAndPieces) {
  for (const auto& [heads, kv_heads] : {std::pair{1, 1}, {6, 2}, {7, 1}}) {
    for (const int64_t head_dim : {2, 40, 64}) {
      for (const int64_t window : {0, 1, 33}) {
        expect_right({heads, kv_heads, head_dim, window}, 70, {1, 7, 70});
      }
    }
  }
}

// The scale and the cap are no larger than 1 / sqrt(head_dim) and the largest scores, so that the
// tolerance holds.
TEST_P(Attention, ScalesAndCapsOfScores) {
  for (const int64_t window : {0, 33}) {
    for (const double scale : {0.0, 0.11}) {
      for (const double cap : {0.0, 0.8, 5.0}) {
        if (scale == 0.0 && cap == 0.0) continue;
        expect_right({6, 2, 40, window, scale, cap}, 140, {1, 9, 140});
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

// Positions beyond the first range are computed separately and added up.
TEST_P(Attention, RangesOfALongContextAreAddedUp) {
  for (const auto& [window, dtype] :
       {std::pair{0, DType::kF32}, {800, DType::kBF16}, {700, DType::kI8}}) {
    const ops::AttentionShape shape = {4, 2, 16, window};
    const Tokens t(shape, 1300, random_, dtype);
    const auto cache = backend_->make_kv_cache({1, 2, 16, 1300, dtype});
    const auto exact = reference_->make_kv_cache({1, 2, 16, 1300});
    Matrix y(1300, 64), expected(1300, 64);
    t.run(*backend_, 0, 0, 1297, *cache, y);
    t.run(*reference_, 0, 0, 1297, *exact, expected);
    cache->set_length(1297);
    exact->set_length(1297);
    t.run(*backend_, 0, 1297, 3, *cache, y);
    t.run(*reference_, 0, 1297, 3, *exact, expected);
    SCOPED_TRACE(testing::Message() << "seed " << kAttentionSeed << ", window " << window);
    expect_near(expected, y, t.tolerance());
  }
}

TEST_P(Attention, ABf16CacheRoundsToNearestEven) {
  Tokens t({4, 2, 40, 0}, 150, random_);
  t.dtype = DType::kBF16;
  const Matrix y = t.run_all(*backend_, 150);
  round_to_bf16(t.k);
  round_to_bf16(t.v);
  const Matrix rounded = t.run_all(*backend_, 150);
  EXPECT_EQ(std::memcmp(y.data(), rounded.data(), sizeof(float) * 150 * 160), 0);
}

// Sequences have different lengths: some are new, some have a past, and one is long enough to be
// split. Together they give the bits that each gives alone.
TEST_P(Attention, ABatchHasTheBitsOfItsSequencesAlone) {
  const ops::AttentionShape shape = {4, 2, 16, 0};
  const std::vector<std::pair<int64_t, int64_t>> past_and_new = {
      {0, 5}, {70, 1}, {1200, 1}, {3, 90}};
  std::vector<Tokens> sequences;
  std::vector<std::unique_ptr<ops::KvCache>> caches;
  std::vector<ops::SequenceRows> batch;
  int64_t rows = 0;
  for (const auto& [past, fresh] : past_and_new) {
    sequences.emplace_back(shape, past + fresh, random_, DType::kBF16);
    caches.push_back(backend_->make_kv_cache({1, 2, 16, past + fresh, DType::kBF16}));
    Matrix ignored(past + fresh, 64);
    sequences.back().run(*backend_, 0, 0, past, *caches.back(), ignored);
    caches.back()->set_length(past);
    batch.push_back({caches.back().get(), fresh});
    rows += fresh;
  }
  Matrix q(rows, 64), k(rows, 32), v(rows, 32), expected(rows, 64), y(rows, 64);
  int64_t first = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto& [past, fresh] = past_and_new[i];
    Matrix all(past + fresh, 64);
    sequences[i].run(*backend_, 0, past, fresh, *caches[i], all);
    std::copy_n(all.row(past), fresh * 64, expected.row(first));
    std::copy_n(sequences[i].q.row(past), fresh * 64, q.row(first));
    std::copy_n(sequences[i].k.row(past), fresh * 32, k.row(first));
    std::copy_n(sequences[i].v.row(past), fresh * 32, v.row(first));
    first += fresh;
  }
  backend_->attention(shape, 0, q.view(), k.view(), v.view(), batch, y.view());
  EXPECT_EQ(std::memcmp(y.data(), expected.data(), sizeof(float) * static_cast<size_t>(rows) * 64),
            0)
      << "seed " << kAttentionSeed;
}

// A token's result has the same bits whether it comes alone, with its neighbours, or as one of
// many. This holds beyond the positions that are added up separately, too.
TEST_P(Attention, BitsDoNotDependOnPieces) {
  for (const auto& [window, dtype] :
       {std::pair{0, DType::kBF16}, {300, DType::kBF16}, {0, DType::kI8}}) {
    const Tokens t({2, 1, 16, window}, 1300, random_, dtype);
    const Matrix expected = t.run_all(*backend_, 512);
    for (const int64_t piece : {1, 130, 1300}) {
      const Matrix y = t.run_all(*backend_, piece);
      EXPECT_EQ(std::memcmp(y.data(), expected.data(), sizeof(float) * 1300 * 32), 0)
          << "pieces of " << piece << ", window " << window << ", " << dtype_name(dtype)
          << ", seed " << kAttentionSeed;
    }
  }
}

// Random keys are not bytes, so they are rounded by at most half of a 127th of the largest.
TEST_P(Attention, AnInt8CacheRoundsToTheNearestByte) {
  Tokens t({4, 2, 40, 0}, 150, random_);
  t.dtype = DType::kI8;
  const Matrix y = t.run_all(*backend_, 150);
  round_to_bytes(t.k, 40, true);
  round_to_bytes(t.v, 40, false);
  expect_near(t.run_all(*reference_, 150), y, t.tolerance());
}

TEST(CpuKvCache, GrowsWithTheSequence) {
  CpuKvCache cache({2, 3, 20, 100'000, DType::kBF16});
  EXPECT_EQ(cache.size_bytes(), 0);
  cache.grow(1);
  // Both have 20 features, padded to 32.
  EXPECT_EQ(cache.size_bytes(), 2 * 3 * kKeyBlock * (32 + 32) * 2);
  cache.grow(kKeyBlock);
  EXPECT_EQ(cache.size_bytes(), 2 * 3 * kKeyBlock * (32 + 32) * 2);
  cache.grow(kKeyBlock + 1);
  EXPECT_EQ(cache.size_bytes(), 2 * 2 * 3 * kKeyBlock * (32 + 32) * 2);
}

// A rotation adds numbers in log2(n) steps, where n is the largest power of two that divides the
// count. Then it multiplies by a factor that was rounded twice. Each step is orthogonal, so errors
// add up in the Euclidean norm.
TEST(Hadamard, KeepsProductsAndIsItsOwnInverse) {
  std::mt19937_64 random(kAttentionSeed);
  for (const int64_t count : {1, 2, 6, 40, 64, 80, 128, 256}) {
    Matrix x = random_matrix(2, count, random);
    const Matrix before = x;
    const auto product = [count](const Matrix& of) {
      double sum = 0;
      for (int64_t d = 0; d < count; ++d) sum += double{of.row(0)[d]} * of.row(1)[d];
      return sum;
    };
    rotate_by_hadamard(x.row(0), count);
    rotate_by_hadamard(x.row(1), count);
    const int roundings = std::countr_zero(static_cast<uint64_t>(count)) + 3;
    const double norm = largest_norm(before.view(), count),
                 tolerance = 2 * roundings * kUnit * norm;
    EXPECT_NEAR(product(x), product(before), tolerance * norm) << "seed " << kAttentionSeed;
    rotate_by_hadamard(x.row(0), count);
    for (int64_t d = 0; d < count; ++d) EXPECT_NEAR(x.row(0)[d], before.row(0)[d], tolerance);
  }
}

TEST(CpuKvCache, TakesHalfTheMemoryInInt8) {
  CpuKvCache cache({1, 1, 64, 1000, DType::kI8}), bf16({1, 1, 64, 1000, DType::kBF16});
  cache.grow(1);
  bf16.grow(1);
  const int64_t scales = 2 * kKeyBlock * int64_t{sizeof(float)};
  EXPECT_EQ(cache.size_bytes(), bf16.size_bytes() / 2 + scales);
}

TEST_P(Attention, AcceptsNoTokens) {
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

// Forgotten tokens leave no trace, even if they were NaN.
TEST_P(Attention, ForgottenTokensLeaveNoTrace) {
  const ops::AttentionShape shape = {2, 1, 8, 0};
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8}) {
    SCOPED_TRACE(dtype_name(dtype));
    const Tokens t(shape, 50, random_, dtype);
    Tokens bad(shape, 50, random_, dtype);
    std::fill_n(bad.k.data(), 50 * 8, std::numeric_limits<float>::quiet_NaN());
    std::fill_n(bad.v.data(), 50 * 8, std::numeric_limits<float>::quiet_NaN());
    const auto cache = backend_->make_kv_cache({1, 1, 8, 50, dtype});
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
}

// Scores of +-1000 would overflow exp if the maximum were not subtracted.
TEST_P(Attention, LargeScoresDoNotOverflow) {
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
