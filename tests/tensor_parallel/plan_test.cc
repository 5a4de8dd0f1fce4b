// Tests of how weights and heads are divided among processes and which layout an MLP gets. All run
// in one process.

#include "tensor_parallel/plan.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "ops/quantize.h"
#include "tensor_parallel/heads.h"
#include "tensor_parallel/slices.h"

namespace neuronmm::tensor_parallel {
namespace {

TEST(Slices, ColumnsAndRowsHaveTheValuesOfTheWholeWeight) {
  constexpr int64_t kRows = 6, kColumns = 700;
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  std::vector<double> values(kRows * kColumns);
  for (double& value : values) value = normal(random);
  for (const LowBitFormat& format :
       {LowBitFormat{8, 128}, LowBitFormat{6, 128}, LowBitFormat{4, 16}, LowBitFormat{4, 32}}) {
    const ops::QuantizedWeight stored = ops::quantize(values.data(), kRows, kColumns, format);
    const ops::WeightView whole = stored.view();
    for (const Share columns : {Share{0, 128}, Share{128, 384}, Share{512, 188}}) {
      ColumnCopies copies;
      const ops::WeightView part = copies.columns_of(whole, columns);
      ASSERT_EQ(part.rows(), kRows);
      ASSERT_EQ(part.columns(), columns.count);
      for (int64_t i = 0; i < kRows; ++i) {
        std::vector<float> a(static_cast<size_t>(columns.count)), b = a;
        ops::to_floats(whole, i * kColumns + columns.first, columns.count, a.data());
        ops::to_floats(part, i * columns.count, columns.count, b.data());
        EXPECT_EQ(a, b) << format.bits << " bits, columns from " << columns.first;
      }
    }
    const ops::WeightView rows = rows_of(whole, {2, 3});
    std::vector<float> a(kColumns), b(kColumns);
    ops::to_floats(whole, 4 * kColumns, kColumns, a.data());
    ops::to_floats(rows, 2 * kColumns, kColumns, b.data());
    EXPECT_EQ(a, b) << format.bits << " bits";
  }
}

// Dividing the heads must not change which key-value head a query head reads.
TEST(Heads, EveryHeadBelongsToOneProcessWhichAlsoHasItsKvHead) {
  for (const auto& [heads, kv] : {std::pair{9, 3}, {8, 8}, {32, 8}, {6, 2}, {14, 2}, {4, 1}}) {
    const ops::AttentionShape whole = {heads, kv, 64, 0};
    for (const bool quantized : {false, true}) {
      for (int processes = 1; processes <= 8; ++processes) {
        if (!check_heads(whole, quantized, processes).ok()) continue;
        int64_t next = 0;
        for (int process = 0; process < processes; ++process) {
          const Share mine = heads_of(whole, quantized, process, processes);
          const Share mine_kv = kv_heads_of(whole, mine);
          const HeadsHere here = heads_here(whole, mine);
          EXPECT_EQ(mine.first, next);
          EXPECT_GT(mine.count, 0);
          if (quantized) {
            EXPECT_EQ(mine.first * 64 % 128, 0);
          }
          for (int64_t h = 0; h < mine.count; ++h) {
            const ops::AttentionShape& shape = here.shape;
            const int64_t local = here.group > 0
                                      ? (h + here.skipped) / here.group
                                      : h / (shape.num_attention_heads / shape.num_key_value_heads);
            EXPECT_EQ(mine_kv.first + local, (mine.first + h) / (heads / kv));
          }
          next = mine.end();
        }
        EXPECT_EQ(next, heads);
      }
    }
  }
}

TEST(Heads, TooManyProcessesAreRefusedWithThePossibleNumber) {
  const Status floats = check_heads({9, 3, 64, 0}, false, 10);
  ASSERT_FALSE(floats.ok());
  EXPECT_NE(floats.error().message.find("at most 9"), std::string::npos) << floats.error().message;
  const Status rounded = check_heads({9, 3, 64, 0}, true, 6);
  ASSERT_FALSE(rounded.ok());
  EXPECT_NE(rounded.error().message.find("at most 5"), std::string::npos)
      << rounded.error().message;
}

// An MLP with the shapes of Llama-3.2-1B, compressed to factors with ratio 0.2, in bf16.
class Plan : public testing::Test {
 protected:
  static constexpr int64_t kH = 2048, kI = 8192, kR = 1280;
  static ops::LinearWeight factors(int64_t in, int64_t out) {
    static const std::byte nothing{};
    const auto view = [&](int64_t rows, int64_t columns) {
      return ops::WeightView(TensorView{DType::kBF16, {rows, columns}, &nothing});
    };
    return {.u_t = view(kR, in), .v_t = view(out, kR)};
  }
  const ops::MlpWeight weight_ = {factors(kH, kI), factors(kH, kI), factors(kI, kH)};
};

TEST_F(Plan, BytesAndWeightsAreThoseOfTheFormulas) {
  for (const int p : {2, 4, 8}) {
    const auto costs = layout_costs(weight_, 0, p);
    ASSERT_EQ(costs.size(), 3u);
    const double ring = (p - 1.0) / p * 2;  // bf16
    EXPECT_DOUBLE_EQ(costs[0].bytes_per_token(p, parallel::Wire::kBF16), ring * 2 * kH);
    EXPECT_DOUBLE_EQ(costs[1].bytes_per_token(p, parallel::Wire::kBF16), ring * 2 * kR);
    EXPECT_DOUBLE_EQ(costs[2].bytes_per_token(p, parallel::Wire::kBF16), ring * 4 * kR);
    // 3r(H + I/p), and r(2H/p + H + 3I/p).
    EXPECT_EQ(costs[1].weight_bytes, 2 * 3 * kR * (kH + kI / p));
    EXPECT_EQ(costs[2].weight_bytes, 2 * kR * (2 * kH / p + kH + 3 * kI / p));
    // The strip is at most 0.65 of the output, which the reference system sums.
    EXPECT_LE(costs[1].bytes_per_token(p, parallel::Wire::kFp32),
              0.65 * costs[0].bytes_per_token(p, parallel::Wire::kFp32));
  }
}

// MLPs of the same width with pivots instead of factors. Their weights are views without values.
class PivotedPlan : public testing::Test {
 protected:
  static constexpr int64_t kH = 2048, kI = 8192, kR = 1536, kShared = 1024;
  static ops::WeightView view(int64_t rows, int64_t columns) {
    static const std::byte nothing{};
    return {TensorView{DType::kBF16, {rows, columns}, &nothing}};
  }
  static ops::Pivots in(int64_t rank) {
    return {.index = std::vector<int32_t>(static_cast<size_t>(rank)),
            .map_t = view(rank, kH - rank)};
  }
  static ops::Pivots out() {
    return {.index = std::vector<int32_t>(kR), .map_t = view(kH - kR, kR)};
  }
  static ops::LinearWeight down() { return {.w_t = view(kR, kI), .out = out()}; }
};

TEST_F(PivotedPlan, BytesAndWeightsAreThoseOfTheFormulas) {
  const ops::LinearWeight reader = {.w_t = view(kI, kR), .in = in(kR)};
  const ops::MlpWeight weight = {reader, reader, down()};
  const ops::MlpWeight dense_down = {reader, {.w_t = view(kI, kH)}, {.w_t = view(kH, kI)}};
  for (const int p : {2, 4, 8}) {
    const double ring = (p - 1.0) / p * 2;  // bf16
    const auto costs = layout_costs(weight, 0, p);
    ASSERT_EQ(costs.size(), 3u);
    EXPECT_DOUBLE_EQ(costs[1].bytes_per_token(p, parallel::Wire::kBF16), ring * 2 * kR);
    EXPECT_DOUBLE_EQ(costs[2].bytes_per_token(p, parallel::Wire::kBF16), ring * 4 * kR);
    EXPECT_EQ(costs[1].weight_bytes, 2 * (3 * kR * (kH - kR) + 3 * kR * kI / p));
    EXPECT_EQ(costs[2].weight_bytes, 2 * (kR * (kH - kR) + (2 * kR * (kH - kR) + 3 * kR * kI) / p));
    const auto of_dense = layout_costs(dense_down, 0, p);
    ASSERT_EQ(of_dense.size(), 2u);
    EXPECT_DOUBLE_EQ(of_dense[1].bytes_per_token(p, parallel::Wire::kBF16), ring * (kR + 2 * kH));
    EXPECT_EQ(of_dense[1].weight_bytes, 2 * (kR * (kH - kR) + (kR + 2 * kH) * kI) / p);
  }
}

TEST_F(PivotedPlan, SharedInputPivotsCountOnce) {
  const ops::LinearWeight reader = {.w_t = view(kI, kShared)};
  const ops::MlpWeight weight = {reader, reader, down(), in(kShared)};
  for (const int p : {2, 4, 8}) {
    const auto costs = layout_costs(weight, 0, p);
    ASSERT_EQ(costs.size(), 3u);
    EXPECT_DOUBLE_EQ(costs[2].bytes_per_token(p, parallel::Wire::kBF16),
                     (p - 1.0) / p * 2 * (kShared + 2 * kR));
    EXPECT_EQ(costs[1].weight_bytes,
              2 * (kShared * (kH - kShared) + kR * (kH - kR) + (2 * kShared + kR) * kI / p));
    EXPECT_EQ(costs[2].weight_bytes,
              2 * (kR * (kH - kR) + (kShared * (kH - kShared) + (2 * kShared + kR) * kI) / p));
  }
}

TEST_F(Plan, ASlowLinkGetsOneSmallCollectiveAndAFastLinkTheFewestWeights) {
  const auto costs = layout_costs(weight_, 0, 4);
  const Machine ethernet = {5e-4, 1.2e8, 3e10, 1e11}, memory = {2e-6, 1e10, 3e10, 1e11};
  EXPECT_EQ(choose_layout(costs, ethernet, 4, parallel::Wire::kFp32).layout, MlpLayout::kSumStrip);
  EXPECT_EQ(choose_layout(costs, memory, 4, parallel::Wire::kFp32).layout,
            MlpLayout::kGatherStrips);
}

}  // namespace
}  // namespace neuronmm::tensor_parallel
