// Tests which pairs of tables count as the same up to rounding. The formats here round as GGUF's
// do: a step for every block, and values that are multiples of it.

#include "io/twin_tables.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace neuronmm::io {
namespace {

constexpr int64_t kRows = 96, kColumns = 128, kBlock = 32;
using Values = std::vector<float>;

Values random_table(uint64_t seed, float deviation = 1.0f) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  Values values(static_cast<size_t>(kRows * kColumns));
  for (float& value : values) value = normal(random);
  return values;
}

// Rounds blocks of 32 values as Q4_0, Q5_0 and Q8_0 do: to multiples of largest / half.
Values symmetric(const Values& exact, int bits) {
  Values rounded = exact;
  const float half = bits == 8 ? 127.0f : static_cast<float>(1 << (bits - 1));
  for (size_t first = 0; first < exact.size(); first += kBlock) {
    float largest = 0.0f;
    for (size_t i = first; i < first + kBlock; ++i) {
      if (std::abs(exact[i]) > std::abs(largest)) largest = exact[i];
    }
    const float step = bits == 8 ? largest / half : largest / -half;
    for (size_t i = first; i < first + kBlock; ++i) {
      const float top = bits == 8 ? half : half - 1.0f;
      rounded[i] = step * std::clamp(std::nearbyint(exact[i] / step), -half, top);
    }
  }
  return rounded;
}

// Rounds blocks of 32 values as Q4_1 and Q5_1 do: from the lowest to the highest.
Values with_minimum(const Values& exact, int bits) {
  Values rounded = exact;
  for (size_t first = 0; first < exact.size(); first += kBlock) {
    const auto begin = exact.begin() + static_cast<ptrdiff_t>(first);
    const auto [lowest, highest] = std::minmax_element(begin, begin + kBlock);
    const float step = (*highest - *lowest) / static_cast<float>((1 << bits) - 1);
    for (size_t i = first; i < first + kBlock; ++i) {
      rounded[i] = step * std::nearbyint((exact[i] - *lowest) / step) + *lowest;
    }
  }
  return rounded;
}

Values to_dtype(const Values& exact, DType dtype) {
  std::vector<std::byte> bytes;
  append_rounded(dtype, exact.data(), std::ssize(exact), bytes);
  Values rounded(exact.size());
  to_floats({dtype, {std::ssize(exact)}, bytes.data()}, 0, std::ssize(exact), rounded.data());
  return rounded;
}

TableRows rows_of(const Values& values, DType dtype, const char* name) {
  return {name,
          [&values](int64_t row, float* out) {
            std::copy_n(values.data() + row * kColumns, kColumns, out);
          },
          dtype};
}

std::optional<TwinTables> compare(const Values& a, const Values& b, DType dtype = DType::kF32) {
  return find_twins(rows_of(a, dtype, "a"), rows_of(b, dtype, "b"), kRows, kColumns);
}

TEST(TwinTables, OneTableInTwoFormatsIsFoundAndTheFinerOneKept) {
  const Values exact = random_table(1);
  const std::vector<Values> coarse_to_fine = {symmetric(exact, 4),    with_minimum(exact, 4),
                                              symmetric(exact, 5),    with_minimum(exact, 5),
                                              with_minimum(exact, 6), symmetric(exact, 8)};
  for (size_t a = 0; a < coarse_to_fine.size(); ++a) {
    for (size_t b = 0; b < coarse_to_fine.size(); ++b) {
      SCOPED_TRACE(testing::Message() << a << " and " << b);
      const auto twins = compare(coarse_to_fine[a], coarse_to_fine[b]);
      ASSERT_TRUE(twins);
      if (a == b) {
        EXPECT_EQ(twins->difference, 0.0);
      } else {
        EXPECT_NEAR(twins->difference, twins->rounding, 0.15 * twins->rounding);
      }
      const bool far_apart = a + 1 < b || b + 1 < a;
      if (far_apart) {
        EXPECT_EQ(twins->second_is_finer, a < b);
      }
    }
  }
}

TEST(TwinTables, RoundingIsFoundInFloatsOfAFolder) {
  const Values exact = random_table(2);
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const Values coarse = to_dtype(symmetric(exact, 5), dtype);
    const Values fine = to_dtype(symmetric(exact, 8), dtype);
    const auto twins = compare(coarse, fine, dtype);
    ASSERT_TRUE(twins) << dtype_name(dtype);
    EXPECT_TRUE(twins->second_is_finer);
    EXPECT_TRUE(compare(to_dtype(exact, dtype), fine, dtype).has_value() || dtype == DType::kBF16);
  }
  // Another rounding of the same numbers to bf16.
  const Values bf16 = to_dtype(exact, DType::kBF16);
  EXPECT_TRUE(compare(bf16, to_dtype(to_dtype(exact, DType::kF16), DType::kBF16), DType::kBF16));
  const TableRows floats = rows_of(exact, DType::kF32, "a"),
                  rounded = rows_of(bf16, DType::kBF16, "b");
  const auto twins = find_twins(rounded, floats, kRows, kColumns);
  ASSERT_TRUE(twins);
  EXPECT_TRUE(twins->second_is_finer);
}

// Training moves all rows, or the row of one token. Both are recognised, however the tables were
// rounded afterwards.
TEST(TwinTables, TablesThatTrainingHasMovedApartAreTwo) {
  const Values exact = random_table(3), step = random_table(4, 0.05f);
  Values moved = exact, one_row = exact, longer = exact;
  for (size_t i = 0; i < exact.size(); ++i) {
    moved[i] += step[i];
    longer[i] *= 1.0f + 0.1f * static_cast<float>(i / kColumns % 3);
    if (i / kColumns == 77) one_row[i] += 6.0f * step[i];
  }
  for (const Values& other : {moved, one_row, longer, random_table(5)}) {
    EXPECT_FALSE(compare(exact, other));
    EXPECT_FALSE(compare(symmetric(exact, 5), symmetric(other, 8)));
    EXPECT_FALSE(compare(symmetric(exact, 8), symmetric(other, 5)));
    EXPECT_FALSE(
        compare(to_dtype(exact, DType::kBF16), to_dtype(other, DType::kBF16), DType::kBF16));
  }
}

// Floats without a grid have no rounding that could explain a small difference.
TEST(TwinTables, FloatsThatDifferByAFewUnitsAreTwo) {
  const Values exact = random_table(6);
  Values other = exact;
  for (float& value : other) value *= 1.001f;
  EXPECT_FALSE(compare(exact, other));
  Values next = to_dtype(exact, DType::kBF16);
  for (float& value : next) value += std::ldexp(1.0f, std::ilogb(value) - 7);
  EXPECT_FALSE(compare(to_dtype(exact, DType::kBF16), next, DType::kBF16));
}

TEST(TwinTables, ValuesThatAreNoNumbersAreTwo) {
  Values broken = random_table(7);
  broken.back() = std::nanf("");
  EXPECT_FALSE(compare(broken, broken));
}

TEST(TwinTables, TheSentenceNamesBothTablesAndTheKeptOne) {
  const Values exact = random_table(8), coarse = symmetric(exact, 4), fine = symmetric(exact, 8);
  const TableRows a = rows_of(coarse, DType::kF32, "embed"), b = rows_of(fine, DType::kF32, "head");
  const auto twins = find_twins(a, b, kRows, kColumns);
  ASSERT_TRUE(twins);
  const std::string text = twins_text(*twins, a, b);
  EXPECT_NE(text.find("embed and head hold the same table"), std::string::npos) << text;
  EXPECT_NE(text.find("only head is kept"), std::string::npos) << text;
}

}  // namespace
}  // namespace neuronmm::io
