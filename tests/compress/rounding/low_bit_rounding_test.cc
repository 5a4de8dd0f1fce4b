// Tests the choice of codes against searches over all codes, against rounding to nearest as written
// here, and on weights that lie on a grid already.

#include "compress/rounding/low_bit_rounding.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "compress/linear_algebra/blas.h"
#include "compress/oracle.h"
#include "ops/weights.h"

namespace neuronmm::compress {
namespace {

using ops::Codes;
using ops::GroupOf4Bits;
using ops::LowBitFormat;

constexpr uint64_t kRoundingSeed = 20261127;
constexpr LowBitFormat kFormats[] = {{4, 16}, {4, 32}, {6, 128}, {8, 128}};

class LowBitRounding : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(load_blas().ok()); }
  void TearDown() override { set_num_threads(threads_); }

  DoubleMatrix normal_matrix(int64_t rows, int64_t columns) {
    std::normal_distribution<double> normal;
    DoubleMatrix out(rows, columns);
    for (int64_t i = 0; i < out.size(); ++i) out.data()[i] = normal(random_);
    return out;
  }
  // Returns the Gram matrix of random inputs for this number of tokens. The channels differ in size
  // and are correlated.
  DoubleMatrix random_gram(int64_t columns, int64_t tokens) {
    const DoubleMatrix shared = normal_matrix(columns, 4), of_token = normal_matrix(4, tokens);
    DoubleMatrix x = multiply(shared, Transpose::kNo, of_token, Transpose::kNo);
    add(normal_matrix(columns, tokens), x);
    std::normal_distribution<double> normal;
    for (int64_t j = 0; j < columns; ++j) x.scale_row(j, std::exp(normal(random_)));
    return multiply(x, Transpose::kNo, x, Transpose::kYes);
  }
  Codes rounded(const DoubleMatrix& w_t, const DoubleMatrix& gram, LowBitFormat format) const {
    const auto prepared = RoundingGram::prepare(gram);
    if (!prepared.ok()) throw std::runtime_error(prepared.error().message);
    auto codes = round_by_gram(w_t, *prepared, format);
    if (!codes.ok()) throw std::runtime_error(codes.error().message);
    return std::move(codes).value();
  }

  std::mt19937_64 random_{kRoundingSeed};
  const int threads_ = num_threads();
};

int lowest_code(const Codes& codes) { return codes.format.bits == 4 ? 0 : 1; }
int highest_code(const Codes& codes) { return (1 << codes.format.bits) - 1; }

// Returns the sum of e·gram·eᵀ over the rows e of the error.
double loss_of(const DoubleMatrix& w_t, const DoubleMatrix& gram, const Codes& codes) {
  long double sum = 0;
  for (int64_t r = 0; r < w_t.rows(); ++r) {
    std::vector<double> error;
    for (int64_t j = 0; j < w_t.columns(); ++j) error.push_back(w_t(r, j) - codes.value(r, j));
    for (size_t j = 0; j < error.size(); ++j) {
      for (size_t i = 0; i < error.size(); ++i) {
        sum += static_cast<long double>(error[i]) * error[j] *
               gram(static_cast<int64_t>(i), static_cast<int64_t>(j));
      }
    }
  }
  return static_cast<double>(sum);
}

// Rounds every value to nearest on the grids of `codes`.
Codes nearest_on_same_grids(const DoubleMatrix& w_t, Codes codes) {
  for (int64_t r = 0; r < codes.rows; ++r) {
    for (int64_t j = 0; j < codes.columns; ++j) {
      uint8_t& q = codes.q[static_cast<size_t>(r * codes.columns + j)];
      double least = std::numeric_limits<double>::infinity();
      int best = 0;
      for (int code = lowest_code(codes); code <= highest_code(codes); ++code) {
        q = static_cast<uint8_t>(code);
        const double error = std::abs(w_t(r, j) - codes.value(r, j));
        if (error < least) best = code;
        least = std::min(least, error);
      }
      q = static_cast<uint8_t>(best);
    }
  }
  return codes;
}

void expect_valid(const Codes& codes) {
  for (const uint8_t q : codes.q) {
    ASSERT_GE(q, lowest_code(codes));
    ASSERT_LE(q, highest_code(codes));
  }
  for (const uint8_t group : codes.groups) ASSERT_TRUE(GroupOf4Bits::of(group).fits());
  for (const bf16 scale : codes.scales) ASSERT_TRUE(std::isfinite(scale.to_float()));
}

// Tries all 16³ codes of three columns, with the codes of the other columns unchanged.
TEST_F(LowBitRounding, CodesAreNearlyTheBestOnes) {
  constexpr int64_t kColumns = 40;
  double found = 0, best = 0, nearest = 0;
  for (int trial = 0; trial < 20; ++trial) {
    const DoubleMatrix w_t = normal_matrix(1, kColumns), gram = random_gram(kColumns, 200);
    Codes codes = rounded(w_t, gram, {4, 16});
    const double own = loss_of(w_t, gram, codes);
    nearest += loss_of(w_t, gram, nearest_on_same_grids(w_t, codes));
    double least = own;
    for (int all = 0; all < 16 * 16 * 16; ++all) {
      codes.q[0] = static_cast<uint8_t>(all & 15);
      codes.q[20] = static_cast<uint8_t>(all >> 4 & 15);
      codes.q[39] = static_cast<uint8_t>(all >> 8);
      least = std::min(least, loss_of(w_t, gram, codes));
    }
    found += own;
    best += least;
  }
  EXPECT_LE(found, 1.05 * best);
  EXPECT_GT(nearest, 1.5 * best) << "else this shows nothing";
}

// The sizes cover every kind of incomplete last block, group and set of rows.
TEST_F(LowBitRounding, GramRoundingLosesLessThanNearest) {
  const std::pair<int64_t, int64_t> sizes[] = {{1, 1}, {3, 40}, {130, 136}, {5, 300}, {129, 130}};
  for (const auto& [rows, columns] : sizes) {
    const DoubleMatrix w_t = normal_matrix(rows, columns);
    const DoubleMatrix gram = random_gram(columns, 4 * columns);
    for (const LowBitFormat format : kFormats) {
      SCOPED_TRACE(fmt::format("[{}, {}] {} bits by {}", rows, columns, format.bits, format.group));
      const Codes codes = rounded(w_t, gram, format);
      ASSERT_EQ(std::ssize(codes.q), rows * columns);
      expect_valid(codes);
      const double own = loss_of(w_t, gram, codes);
      const double nearest = loss_of(w_t, gram, nearest_on_same_grids(w_t, codes));
      EXPECT_LE(own, (columns > 100 ? 0.8 : 1.0) * nearest);
    }
  }
}

// After enough sweeps no single code can be changed without more loss. The loss uses the damped
// Gram matrix, which the rounding minimizes.
TEST_F(LowBitRounding, NoSingleCodeCanBeImproved) {
  constexpr int64_t kFewRows = 4, kColumns = 48;
  const DoubleMatrix w_t = normal_matrix(kFewRows, kColumns);
  DoubleMatrix gram = random_gram(kColumns, 500);
  for (const LowBitFormat format : {LowBitFormat{4, 32}, LowBitFormat{6, 128}}) {
    const auto prepared = RoundingGram::prepare(gram);
    ASSERT_TRUE(prepared.ok());
    auto codes = round_by_gram(w_t, *prepared, format, {.descents = 20, .refits = 0});
    ASSERT_TRUE(codes.ok());
    DoubleMatrix damped(kColumns, kColumns);
    for (int64_t i = 0; i < damped.size(); ++i) {
      damped.data()[i] = prepared->h[static_cast<size_t>(i)];
    }
    const double own = loss_of(w_t, damped, *codes);
    for (uint8_t& q : codes->q) {
      for (const int other : {q - 1, q + 1}) {
        if (other < lowest_code(*codes) || other > highest_code(*codes)) continue;
        const uint8_t kept = std::exchange(q, static_cast<uint8_t>(other));
        EXPECT_GE(loss_of(w_t, damped, *codes), own * (1 - 1e-5));
        q = kept;
      }
    }
  }
}

// Returns a weight that the format can represent exactly. Every group uses its first and its last
// code.
Codes full_codes(int64_t rows, int64_t columns, LowBitFormat format, std::mt19937_64& random) {
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  const auto parts = [&](int64_t each) { return (columns + each - 1) / each; };
  Codes codes{format, rows, columns, {}, {}, {}};
  const int highest = (1 << format.bits) - 1;
  for (int64_t i = 0; i < rows * columns; ++i) {
    const int64_t in_group = i % columns % format.group;
    const int code = in_group == 0 ? highest : in_group == 1 ? highest % 2 : pick(1, highest);
    codes.q.push_back(static_cast<uint8_t>(code));
  }
  if (format.bits == 4) {
    for (int64_t i = 0; i < rows * parts(format.group); ++i) {
      const int64_t first_of_block = i % parts(format.group) % (128 / format.group);
      // With an even multiplier the zero point is one of the group's own half steps.
      GroupOf4Bits group{first_of_block == 0 ? 12 : 2 * pick(2, 6), pick(10, 20)};
      codes.groups.push_back(group.stored());
    }
    for (uint8_t& q : codes.q) q = static_cast<uint8_t>(q & 15);
    for (int64_t i = 0; i < rows * columns; ++i) {
      if (i % columns % format.group == 1) codes.q[static_cast<size_t>(i)] = 0;
    }
  }
  for (int64_t i = 0; i < rows * parts(ops::kQuantGroup); ++i) {
    codes.scales.push_back(bf16::from_float(static_cast<float>(pick(1, 200)) * 1e-4F));
  }
  return codes;
}

TEST_F(LowBitRounding, WeightsOnTheGridAreExact) {
  constexpr int64_t kGridRows = 20, kColumns = 320;
  const DoubleMatrix gram = random_gram(kColumns, 2000);
  for (const LowBitFormat format : kFormats) {
    SCOPED_TRACE(fmt::format("{} bits by {}", format.bits, format.group));
    const Codes exact = full_codes(kGridRows, kColumns, format, random_);
    DoubleMatrix w_t(kGridRows, kColumns);
    for (int64_t j = 0; j < kColumns; ++j) {
      for (int64_t i = 0; i < kGridRows; ++i) w_t(i, j) = exact.value(i, j);
    }
    const Codes codes = rounded(w_t, gram, format);
    for (int64_t j = 0; j < kColumns; ++j) {
      for (int64_t i = 0; i < kGridRows; ++i) {
        ASSERT_EQ(codes.value(i, j), w_t(i, j)) << i << " " << j;
      }
    }
  }
}

TEST_F(LowBitRounding, ZerosStayZero) {
  DoubleMatrix w_t = normal_matrix(3, 200);
  w_t.scale_row(1, 0.0);
  for (int64_t j = 0; j < 128; ++j) w_t(2, j) = 0;
  for (const LowBitFormat format : kFormats) {
    const Codes codes = rounded(w_t, random_gram(200, 1000), format);
    expect_valid(codes);
    for (int64_t j = 0; j < 200; ++j) EXPECT_EQ(codes.value(1, j), 0);
    for (int64_t j = 0; j < 128; ++j) EXPECT_EQ(codes.value(2, j), 0);
  }
}

// The cases are fewer tokens than columns, dead columns, no tokens at all, and one direction that
// is far larger than all others.
TEST_F(LowBitRounding, AnyGramMatrixGivesValidCodes) {
  constexpr int64_t kColumns = 160;
  const DoubleMatrix w_t = normal_matrix(9, kColumns);
  DoubleMatrix dead = random_gram(kColumns, 700);
  for (const int64_t j : {0, 7, 159}) {
    dead.scale_row(j, 0.0);
    dead.scale_column(j, 0.0);
  }
  const DoubleMatrix direction = normal_matrix(kColumns, 1);
  DoubleMatrix outweighed = random_gram(kColumns, 700);
  add_product(1e9, direction, Transpose::kNo, direction, Transpose::kYes, outweighed);
  const DoubleMatrix grams[] = {random_gram(kColumns, 5), dead, DoubleMatrix(kColumns, kColumns),
                                outweighed};
  for (const DoubleMatrix& gram : grams) {
    for (const LowBitFormat format : kFormats) {
      const Codes codes = rounded(w_t, gram, format);
      expect_valid(codes);
      EXPECT_LE(loss_of(w_t, gram, codes),
                1.0001 * loss_of(w_t, gram, nearest_on_same_grids(w_t, codes)));
    }
  }
}

bool same(const Codes& a, const Codes& b) {
  return a.q == b.q && a.groups == b.groups && a.scales.size() == b.scales.size() &&
         std::memcmp(a.scales.data(), b.scales.data(), a.scales.size() * sizeof(bf16)) == 0;
}

TEST_F(LowBitRounding, ThreadsDoNotChangeCodes) {
  const DoubleMatrix w_t = normal_matrix(400, 270), gram = random_gram(270, 900);
  set_num_threads(1);
  const Codes one = rounded(w_t, gram, {4, 16});
  set_num_threads(3);
  EXPECT_TRUE(same(one, rounded(w_t, gram, {4, 16})));
}

// Powers of two in the weights change only the scales. Those in the Gram matrix change nothing.
TEST_F(LowBitRounding, PowersOfTwoDoNotChangeCodes) {
  const DoubleMatrix w_t = normal_matrix(5, 140), gram = random_gram(140, 900);
  DoubleMatrix tiny = w_t, heavy = gram;
  for (int64_t j = 0; j < 140; ++j) {
    tiny.scale_column(j, 0x1p-70);
    heavy.scale_column(j, 0x1p80);
  }
  for (const LowBitFormat format : kFormats) {
    const Codes codes = rounded(w_t, gram, format);
    EXPECT_TRUE(same(codes, rounded(w_t, heavy, format)));
    const Codes of_tiny = rounded(tiny, gram, format);
    EXPECT_EQ(of_tiny.q, codes.q);
    EXPECT_EQ(of_tiny.value(4, 139), codes.value(4, 139) * 0x1p-70);
  }
}

TEST_F(LowBitRounding, NanInfinityAndNegativeDiagonalsAreRefused) {
  const DoubleMatrix w_t = normal_matrix(2, 20), gram = random_gram(20, 50);
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    DoubleMatrix broken = w_t, broken_gram = gram;
    broken(1, 3) = bad;
    broken_gram(4, 4) = bad;
    const auto prepared = RoundingGram::prepare(gram);
    ASSERT_TRUE(prepared.ok());
    const auto codes = round_by_gram(broken, *prepared, {4, 16});
    ASSERT_FALSE(codes.ok());
    EXPECT_NE(codes.error().message.find("NaN"), std::string::npos);
    EXPECT_FALSE(RoundingGram::prepare(broken_gram).ok());
  }
  DoubleMatrix negative = gram;
  negative(7, 7) = -1;
  const auto refused = RoundingGram::prepare(negative);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("-1 on its diagonal in row 7"), std::string::npos);
}

}  // namespace
}  // namespace neuronmm::compress
