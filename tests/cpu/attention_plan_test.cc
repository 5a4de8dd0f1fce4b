// These tests count the tasks of attention, for numbers of threads that this machine may not have.

#include "cpu/attention_plan.h"

#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace neuronmm::cpu {
namespace {

// Qwen2.5-0.5B has 14 heads and 2 key/value heads, Llama-3.1-8B 32 and 8.
const ops::AttentionShape kSmall = {14, 2, 64, 0}, kLarge = {32, 8, 128, 0};

int64_t tasks(const ops::AttentionShape& shape, const std::vector<NewTokens>& batch, int threads) {
  return std::ssize(AttentionPlan(shape, batch, threads).tasks());
}

// Returns `sequences` sequences with one new token each.
std::vector<NewTokens> decoding(int64_t sequences, int64_t past) {
  std::vector<NewTokens> batch;
  for (int64_t i = 0; i < sequences; ++i) batch.push_back({past, i, 1});
  return batch;
}

TEST(AttentionPlan, DecodingHasATaskForEveryRangeOfPositions) {
  for (const int64_t past : {4095, 16383}) {
    const int64_t ranges = (past + 1) / kRangePositions;
    EXPECT_EQ(tasks(kSmall, decoding(1, past), 8), 2 * ranges);
    EXPECT_EQ(tasks(kLarge, decoding(1, past), 8), 8 * ranges);
    EXPECT_EQ(tasks(kLarge, decoding(16, past), 96), 16 * 8 * ranges);
  }
}

TEST(AttentionPlan, OneThreadHasATaskPerHead) {
  EXPECT_EQ(tasks(kSmall, decoding(1, 16383), 1), 2);
  EXPECT_EQ(tasks(kLarge, decoding(16, 4095), 1), 16 * 8);
}

TEST(AttentionPlan, ReadingHasTasksForAllThreads) {
  for (const int threads : {2, 8, 32, 96}) {
    EXPECT_GE(tasks(kSmall, {{0, 0, 512}}, threads), threads);
    EXPECT_GE(tasks(kLarge, {{0, 0, 512}}, threads), threads);
    EXPECT_GE(tasks(kSmall, {{16000, 0, 64}}, threads), threads);
  }
}

// Every row of every head must be computed once for each position that it sees.
TEST(AttentionPlan, TasksCoverAllRowsAndPositions) {
  constexpr uint32_t kSeed = 5;
  std::mt19937 random(kSeed);
  const auto number = [&](int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random);
  };
  for (int i = 0; i < 200; ++i) {
    const int64_t heads = number(1, 3), group = number(1, 8);
    const ops::AttentionShape shape = {heads * group, heads, 64,
                                       number(0, 1) == 0 ? 0 : number(1, 3000)};
    std::vector<NewTokens> batch;
    for (int64_t n = number(1, 4), row = 0; n > 0; --n) {
      batch.push_back({number(0, 3000), row, number(1, 300)});
      row += batch.back().tokens;
    }
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", case " << i);
    const AttentionPlan plan(shape, batch, static_cast<int>(number(1, 40)));
    std::map<int64_t, int64_t> next_range;  // of each block
    for (const AttentionTask& task : plan.tasks()) {
      EXPECT_EQ(task.first_range, next_range[task.block]);
      next_range[task.block] = task.end_range;
    }
    std::set<std::tuple<int64_t, int64_t, int64_t>> rows;
    for (int64_t b = 0; b < std::ssize(plan.blocks()); ++b) {
      const RowBlock& block = plan.blocks()[static_cast<size_t>(b)];
      EXPECT_EQ(next_range[b], block.ranges());
      const NewTokens& tokens = batch[static_cast<size_t>(block.sequence)];
      for (int64_t row = block.first_row; row < block.first_row + block.rows; ++row) {
        EXPECT_TRUE(rows.emplace(block.sequence, block.head, row).second);
        const int64_t position = tokens.past + row / group;
        EXPECT_LT(position, block.end);
        const int64_t first =
            shape.sliding_window > 0 ? position - shape.sliding_window + 1 : int64_t{0};
        EXPECT_LE(block.begin, std::max<int64_t>(first, 0));
      }
    }
    int64_t expected = 0;
    for (const NewTokens& tokens : batch) expected += tokens.tokens * group * heads;
    EXPECT_EQ(std::ssize(rows), expected);
  }
}

}  // namespace
}  // namespace neuronmm::cpu
