// Tests calibrated rounding to block types against rounding to nearest and against the dequantizer
// of GGUF files, whose results are those of PyPI's `gguf`.

#include "compress/block_rounding/tensor_blocks.h"

#include <cmath>
#include <limits>
#include <random>
#include <span>

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "compress/linear_algebra/blas.h"
#include "gguf/dequantize.h"

namespace neuronmm::compress {
namespace {

using gguf_out::BlockType;

constexpr uint64_t kBlocksSeed = 20261130;
constexpr BlockType kTypes[] = {BlockType::kQ4_0, BlockType::kQ4_1, BlockType::kQ5_0,
                                BlockType::kQ5_1, BlockType::kQ8_0, BlockType::kQ4_K,
                                BlockType::kQ5_K, BlockType::kQ6_K, BlockType::kIq4Nl};

class TensorBlocks : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(load_blas().ok()); }
  void TearDown() override { set_num_threads(threads_); }

  DoubleMatrix normals(int64_t rows, int64_t columns) {
    std::normal_distribution<double> normal;
    DoubleMatrix out(rows, columns);
    for (int64_t i = 0; i < out.size(); ++i) out.data()[i] = normal(random_);
    return out;
  }
  // Returns the Gram matrix of random inputs. The channels differ in size and are correlated.
  DoubleMatrix gram_of(int64_t columns, int64_t tokens) {
    DoubleMatrix x =
        multiply(normals(columns, 4), Transpose::kNo, normals(4, tokens), Transpose::kNo);
    add(normals(columns, tokens), x);
    std::normal_distribution<double> normal;
    for (int64_t j = 0; j < columns; ++j) x.scale_row(j, std::exp(normal(random_)));
    return multiply(x, Transpose::kNo, x, Transpose::kYes);
  }
  static std::vector<std::byte> blocks(const DoubleMatrix& w_t, const DoubleMatrix& gram,
                                       BlockType type, const RoundingSettings& settings = {}) {
    const auto prepared = RoundingGram::prepare(gram);
    if (!prepared.ok()) throw std::runtime_error(prepared.error().message);
    auto bytes = blocks_by_gram(w_t, *prepared, type, settings);
    if (!bytes.ok()) throw std::runtime_error(bytes.error().message);
    return std::move(bytes).value();
  }

  std::mt19937_64 random_{kBlocksSeed};
  const int threads_ = num_threads();
};

DoubleMatrix values_of(const std::vector<std::byte>& bytes, BlockType type, int64_t rows,
                       int64_t columns) {
  const auto* const known = io::find_gguf_type(static_cast<uint32_t>(gguf_out::info(type).number));
  std::vector<float> values(static_cast<size_t>(rows * columns));
  gguf::dequantize(*known, bytes.data(), rows * columns, values.data());
  DoubleMatrix out(rows, columns);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) out(r, c) = values[static_cast<size_t>(r * columns + c)];
  }
  return out;
}

// Returns the sum of e·gram·eᵀ over the rows e of the error.
double gram_loss(const DoubleMatrix& w_t, const DoubleMatrix& gram, const DoubleMatrix& rounded) {
  long double sum = 0;
  for (int64_t r = 0; r < w_t.rows(); ++r) {
    for (int64_t j = 0; j < w_t.columns(); ++j) {
      long double moved = 0;
      for (int64_t i = 0; i < w_t.columns(); ++i)
        moved += static_cast<long double>(gram(i, j)) * (w_t(r, i) - rounded(r, i));
      sum += moved * (w_t(r, j) - rounded(r, j));
    }
  }
  return static_cast<double>(sum);
}

// Rounds to nearest with the diagonal of the Gram matrix as importance.
DoubleMatrix nearest(const DoubleMatrix& w_t, const DoubleMatrix& gram, BlockType type) {
  std::vector<float> row(static_cast<size_t>(w_t.columns())), importance(row.size());
  const int64_t row_bytes = gguf_out::encoded_bytes(type, w_t.columns());
  std::vector<std::byte> bytes(static_cast<size_t>(w_t.rows() * row_bytes));
  for (int64_t r = 0; r < w_t.rows(); ++r) {
    for (int64_t c = 0; c < w_t.columns(); ++c) {
      row[static_cast<size_t>(c)] = static_cast<float>(w_t(r, c));
      importance[static_cast<size_t>(c)] = static_cast<float>(gram(c, c));
    }
    gguf_out::encode_row(type, row.data(), importance.data(), w_t.columns(),
                         bytes.data() + r * row_bytes);
  }
  return values_of(bytes, type, w_t.rows(), w_t.columns());
}

// The sizes cover a single row, an incomplete and a complete tile, and an incomplete last sweep.
TEST_F(TensorBlocks, GramRoundingLosesLessThanNearest) {
  const std::pair<int64_t, int64_t> sizes[] = {{1, 256}, {3, 512}, {130, 256}, {5, 288}};
  for (const auto& [rows, columns] : sizes) {
    const DoubleMatrix w_t = normals(rows, columns), gram = gram_of(columns, 4 * columns);
    for (const BlockType type : kTypes) {
      if (!gguf_out::fits_row(type, columns)) continue;
      SCOPED_TRACE(fmt::format("[{}, {}] {}", rows, columns, gguf_out::info(type).name));
      const auto bytes = blocks(w_t, gram, type);
      ASSERT_EQ(std::ssize(bytes), rows * gguf_out::encoded_bytes(type, columns));
      const double own = gram_loss(w_t, gram, values_of(bytes, type, rows, columns));
      EXPECT_LE(own, 0.8 * gram_loss(w_t, gram, nearest(w_t, gram, type)));
    }
  }
}

TEST_F(TensorBlocks, SweepsThatChooseScalesLoseLess) {
  const DoubleMatrix w_t = normals(16, 256), gram = gram_of(256, 1000);
  for (const BlockType type : kTypes) {
    SCOPED_TRACE(gguf_out::info(type).name);
    double before = std::numeric_limits<double>::infinity();
    for (const int refits : {0, 1, 3}) {
      const auto bytes = blocks(w_t, gram, type, {.descents = 1, .refits = refits});
      const double own = gram_loss(w_t, gram, values_of(bytes, type, 16, 256));
      // The damping that the rounding adds may cost the loss without it as much.
      EXPECT_LE(own, before * (refits == 1 ? 0.999 : 1.001)) << refits;
      before = own;
    }
  }
}

// No code of one block can be changed without more loss. The loss uses the damped Gram matrix,
// which the rounding minimizes.
TEST_F(TensorBlocks, NoSingleCodeCanBeImproved) {
  constexpr int64_t kColumns = 64;
  const DoubleMatrix w_t = normals(2, kColumns), gram = gram_of(kColumns, 500);
  const auto prepared = RoundingGram::prepare(gram);
  ASSERT_TRUE(prepared.ok());
  DoubleMatrix damped(kColumns, kColumns);
  for (int64_t i = 0; i < damped.size(); ++i)
    damped.data()[i] = prepared->h[static_cast<size_t>(i)];
  for (const BlockType type : {BlockType::kQ4_0, BlockType::kQ4_1, BlockType::kIq4Nl}) {
    SCOPED_TRACE(gguf_out::info(type).name);
    auto bytes = blocks(w_t, gram, type, {.descents = 30, .refits = 0});
    const double own = gram_loss(w_t, damped, values_of(bytes, type, 2, kColumns));
    const int64_t block_bytes = gguf_out::info(type).block_bytes;
    for (int64_t at = 0; at < std::ssize(bytes); ++at) {
      if (at % block_bytes < block_bytes - 16) continue;  // the scales come before the 16 bytes
      for (const int half : {0, 4}) {
        std::byte& place = bytes[static_cast<size_t>(at)];
        const int code = std::to_integer<int>(place) >> half & 15;
        for (const int other : {code - 1, code + 1}) {
          if (other < 0 || other > 15) continue;
          const std::byte kept = place;
          place =
              static_cast<std::byte>((std::to_integer<int>(place) & (240 >> half)) | other << half);
          EXPECT_GE(gram_loss(w_t, damped, values_of(bytes, type, 2, kColumns)), own * (1 - 1e-5));
          place = kept;
        }
      }
    }
  }
}

// Targets half between two codes, and rows of zeros beside others.
TEST_F(TensorBlocks, TiesAndZerosGiveNumbers) {
  DoubleMatrix w_t(4, 256);
  for (int64_t c = 0; c < 256; ++c) {
    w_t(0, c) = (static_cast<double>(c % 16) - 7.5) / 8;
    w_t(2, c) = c < 32 ? 0.0 : 1.0;
    w_t(3, c) = c % 2 == 0 ? 0.5 : -0.5;
  }
  DoubleMatrix unit(256, 256);
  add_to_diagonal(1, unit);
  for (const BlockType type : kTypes) {
    SCOPED_TRACE(gguf_out::info(type).name);
    const DoubleMatrix values = values_of(blocks(w_t, unit, type), type, 4, 256);
    ASSERT_TRUE(values.all_finite());
    // Costs of the order of fp32's rounding errors are not compared.
    EXPECT_LE(gram_loss(w_t, unit, values),
              1.0001 * gram_loss(w_t, unit, nearest(w_t, unit, type)) + 1e-4);
    for (int64_t c = 0; c < 256; ++c) EXPECT_EQ(values(1, c), 0) << c;
    for (int64_t c = 0; c < 32; ++c) EXPECT_NEAR(values(2, c), 0, 0.02) << c;
  }
}

// The cases are fewer tokens than columns, dead columns, no tokens at all, and one direction that
// is far larger than all others.
TEST_F(TensorBlocks, AnyGramMatrixGivesValidBlocks) {
  constexpr int64_t kColumns = 256;
  const DoubleMatrix w_t = normals(9, kColumns);
  DoubleMatrix dead = gram_of(kColumns, 700), outweighed = gram_of(kColumns, 700);
  for (const int64_t j : {0, 7, 255}) {
    dead.scale_row(j, 0.0);
    dead.scale_column(j, 0.0);
  }
  const DoubleMatrix direction = normals(kColumns, 1);
  add_product(1e9, direction, Transpose::kNo, direction, Transpose::kYes, outweighed);
  const DoubleMatrix grams[] = {gram_of(kColumns, 5), dead, DoubleMatrix(kColumns, kColumns),
                                outweighed};
  for (const DoubleMatrix& gram : grams) {
    for (const BlockType type : kTypes) {
      SCOPED_TRACE(gguf_out::info(type).name);
      const DoubleMatrix values = values_of(blocks(w_t, gram, type), type, 9, kColumns);
      ASSERT_TRUE(values.all_finite());
      EXPECT_LE(gram_loss(w_t, gram, values),
                1.0001 * gram_loss(w_t, gram, nearest(w_t, gram, type)));
    }
  }
}

TEST_F(TensorBlocks, ThreadsDoNotChangeBlocks) {
  const DoubleMatrix w_t = normals(300, 256), gram = gram_of(256, 900);
  for (const BlockType type : kTypes) {
    set_num_threads(1);
    const auto one = blocks(w_t, gram, type);
    set_num_threads(3);
    EXPECT_EQ(one, blocks(w_t, gram, type)) << gguf_out::info(type).name;
  }
}

TEST_F(TensorBlocks, NumbersBeyondTheTypeAreRefused) {
  const DoubleMatrix gram = gram_of(256, 500);
  const auto prepared = RoundingGram::prepare(gram);
  ASSERT_TRUE(prepared.ok());
  for (const BlockType type : kTypes) {
    for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity(), 1e9}) {
      DoubleMatrix w_t = normals(2, 256);
      w_t(1, 3) = bad;
      const auto refused = blocks_by_gram(w_t, *prepared, type);
      ASSERT_FALSE(refused.ok());
      EXPECT_NE(refused.error().message.find(bad == 1e9 ? gguf_out::info(type).name : "NaN"),
                std::string::npos)
          << refused.error().message;
    }
    // The largest numbers that fit are kept within the error of the type.
    DoubleMatrix w_t = normals(2, 256);
    for (int64_t i = 0; i < w_t.size(); ++i) w_t.data()[i] *= 10000;
    const DoubleMatrix values = values_of(blocks(w_t, gram, type), type, 2, 256);
    EXPECT_LE(gram_loss(w_t, gram, values), 0.05 * gram_loss(w_t, gram, DoubleMatrix(2, 256)));
  }
}

TEST_F(TensorBlocks, NearestBlocksAreThoseOfTheEncoder) {
  std::vector<float> values(3 * 256);
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random_);
  const TensorView view = {DType::kF32, {3, 256}, std::as_bytes(std::span(values)).data()};
  for (const BlockType type : kTypes) {
    std::vector<std::byte> expected(static_cast<size_t>(gguf_out::encoded_bytes(type, 3 * 256)));
    gguf_out::encode_row(type, values.data(), nullptr, 3 * 256, expected.data());
    const auto found = nearest_blocks(view, type);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(*found, expected) << gguf_out::info(type).name;
  }
  values[300] = std::nanf("");
  EXPECT_FALSE(nearest_blocks(view, BlockType::kQ4_0).ok());
}

}  // namespace
}  // namespace neuronmm::compress
