// Tests ranks against a table that was computed by hand from equation (5) of the paper.

#include "compress/sizes/rank.h"

#include <cmath>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace neuronmm::compress {
namespace {

struct Row {
  const char* model;
  int64_t k, n;
  double ratio;
  int64_t rank;
  double kept;
};

constexpr Row kTable[] = {
    {"Llama-3.2-1B", 2048, 8192, 0.05, 1536, 0.938},
    {"Llama-3.2-1B", 2048, 8192, 0.1, 1536, 0.938},
    {"Llama-3.2-1B", 2048, 8192, 0.2, 1280, 0.781},
    {"Llama-3.2-3B", 3072, 8192, 0.05, 2176, 0.974},
    {"Llama-3.2-3B", 3072, 8192, 0.1, 2048, 0.917},
    {"Llama-3.2-3B", 3072, 8192, 0.2, 1792, 0.802},
    {"Qwen3-1.7B", 2048, 6144, 0.05, 1408, 0.917},
    {"Qwen3-1.7B", 2048, 6144, 0.1, 1408, 0.917},
    {"Qwen3-1.7B", 2048, 6144, 0.2, 1280, 0.833},
    {"Qwen3-4B", 2560, 9728, 0.05, 1920, 0.947},
    {"Qwen3-4B", 2560, 9728, 0.1, 1792, 0.884},
    {"Qwen3-4B", 2560, 9728, 0.2, 1664, 0.821},
    {"Llama-3.1-8B", 4096, 14336, 0.05, 3072, 0.964},
    {"Llama-3.1-8B", 4096, 14336, 0.1, 2816, 0.884},
    {"Llama-3.1-8B", 4096, 14336, 0.2, 2560, 0.804},
    {"Qwen3-8B", 4096, 12288, 0.05, 2944, 0.958},
    {"Qwen3-8B", 4096, 12288, 0.1, 2816, 0.917},
    {"Qwen3-8B", 4096, 12288, 0.2, 2432, 0.792},
};

constexpr double kPrinted = 0.0005 + 1e-9;  // half of the table's third decimal

TEST(Rank, MatchesTheTableOfEquation5) {
  for (const Row& row : kTable) {
    SCOPED_TRACE(fmt::format("{} at {}", row.model, row.ratio));
    EXPECT_EQ(aligned_rank(row.k, row.n, {row.ratio, 128}), row.rank);
    EXPECT_EQ(aligned_rank(row.n, row.k, {row.ratio, 128}), row.rank);  // the shape of down
    EXPECT_NEAR(kept_share(row.k, row.n, row.rank), row.kept, kPrinted);
  }
}

TEST(Rank, RanksFromBreakEvenOnSaveNothing) {
  EXPECT_TRUE(saves_parameters(2048, 8192, 1638));  // break-even 1638.4
  EXPECT_FALSE(saves_parameters(2048, 8192, 1639));
  EXPECT_FALSE(saves_parameters(2048, 6144, 1536));  // exactly break-even
  EXPECT_TRUE(saves_parameters(2048, 6144, 1535));
  EXPECT_DOUBLE_EQ(kept_share(2048, 6144, 1536), 1.0);
}

// If K = N = 2·m·block, the quotient is m·(1 - ratio). It is whole for these ratios, although 1 -
// ratio is not exact in binary.
TEST(Rank, WholeQuotientsAreNotRoundedAway) {
  for (int64_t tenths = 1; tenths < 10; ++tenths) {
    for (const int64_t block : {1, 16, 128}) {
      const int64_t m = 70, size = 2 * m * block;
      const double ratio = static_cast<double>(tenths) / 10.0;
      const int64_t expected = m / 10 * (10 - tenths) * block;
      EXPECT_EQ(aligned_rank(size, size, {ratio, block}), expected)
          << "ratio " << ratio << " block " << block;
    }
  }
}

// If K = N = 2·block·m and ratio is 0.5, odd m give 0.5, 1.5, 2.5 ... blocks. Python's round()
// makes 0, 2, 2, 4 ... of them.
TEST(Rank, TiesGoToTheEvenMultipleAsInPython) {
  for (const auto& [m, blocks] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 0}, {3, 2}, {5, 2}, {7, 4}, {9, 4}, {11, 6}, {13, 6}}) {
    const int64_t size = 2 * 128 * m;
    EXPECT_EQ(aligned_rank(size, size, {0.5, 128}), blocks * 128) << m;
  }
  EXPECT_EQ(aligned_rank(1024, 3072, {0.25, 128}), 512);  // Qwen3-0.6B has 4.5 blocks
  // Rounding makes 1 - ratio miss these ties: 3.5 and 4.5 blocks at ratios 0.3 and 0.1.
  EXPECT_EQ(aligned_rank(10 * 128, 10 * 128, {0.3, 128}), 4 * 128);
  EXPECT_EQ(aligned_rank(10 * 128, 10 * 128, {0.1, 128}), 4 * 128);
}

TEST(Rank, SmallMatricesMayGetRankZero) { EXPECT_EQ(aligned_rank(64, 64, {0.2, 128}), 0); }

}  // namespace
}  // namespace neuronmm::compress
