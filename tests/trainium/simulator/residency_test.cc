// Checks which remedy is taken for programs that oversubscribe SBUF, and the traffic that it adds.

#include "trainium/simulator/residency.h"

#include <gtest/gtest.h>

#include "trainium/devices.h"
#include "trainium/kernels/matmul.h"
#include "trainium/kernels/xuv.h"
#include "trainium/simulator/timeline.h"
#include "trainium/simulator/timing.h"
#include "trainium/tile/builder.h"
#include "trainium/tile/counts.h"
#include "trainium/validation/published_kernels.h"

namespace neuronmm::simulator {
namespace {

using kernels::KernelOptions;
using kernels::Tiling;
using tile::Program;

const KernelOptions kBf16 = {.accumulate = DType::kBF16};
const Tiling kBaseline({{"BM", 8}, {"BN", 2}, {"BK", 8}});

Program baseline(int64_t rows) {
  return kernels::matmul_optimized({rows, 8192, 0, 16384}, kBaseline, kBf16);
}

TEST(Residency, AProgramThatFitsIsLeftAlone) {
  const Program program = baseline(4096);
  const auto plans = make_resident(program, kTrn1);
  ASSERT_TRUE(plans.ok());
  ASSERT_EQ(plans->size(), 1u);
  const Residency* plan = &plans->front();
  EXPECT_TRUE(plan->remedies.empty());
  EXPECT_TRUE(plan->partials.empty());
  EXPECT_EQ(tile::count(plan->program), tile::count(program));
}

// The program has 16 MiB of sums and 8 MiB of rotating blocks. W is loaded once per row block, 8
// times in all.
TEST(Residency, SinksTheLoadOfASequentialLoop) {
  const Program program = baseline(8192);
  const auto plans = make_resident(program, kTrn1);
  ASSERT_TRUE(plans.ok());
  ASSERT_EQ(plans->size(), 1u);
  const Residency* plan = &plans->front();
  EXPECT_TRUE(plan->partials.empty());
  const int64_t w = 8192LL * 16384 * 2;
  EXPECT_EQ(tile::count(plan->program).hbm_read_bytes, tile::count(program).hbm_read_bytes + 7 * w);
  EXPECT_LE(tile::sbuf_use(plan->program).peak, plan->capacity);
  const Summary summary = simulate(program, kTrn1)->summary;
  EXPECT_EQ(summary.hbm_read_bytes, tile::count(program).hbm_read_bytes + 7 * w);
  EXPECT_EQ(summary.spill_save_bytes, 0);
}

// The program has 32 MiB of sums. The part that does not stay is saved and reloaded at each of nine
// passes (zeroing, then 8 blocks of K), and reloaded for the store.
TEST(Residency, SpillsSumsThatNoOtherRemedyMakesFit) {
  const auto plans = make_resident(baseline(16384), kTrn1);
  ASSERT_TRUE(plans.ok());
  ASSERT_EQ(plans->size(), 1u);  // No load that streams frees 32 MiB.
  const Residency* plan = &plans->front();
  ASSERT_EQ(plan->partials.size(), 1u);
  EXPECT_EQ(plan->program.buffer(plan->partials[0].buffer).name, "sums");
  EXPECT_FALSE(plan->partials[0].streams);
  const Summary s = simulate(baseline(16384), kTrn1)->summary;
  const double strip = 16384 * 1024 * 2;
  const double spilled = strip - static_cast<double>(plan->partials[0].resident_bytes) * 128;
  const double staging = static_cast<double>(plan->partials[0].staging_bytes) * 128;
  EXPECT_NEAR(static_cast<double>(s.spill_save_bytes), 16 * 9 * spilled, 16 * 9 * staging);
  EXPECT_NEAR(static_cast<double>(s.spill_reload_bytes), 16 * 9 * spilled, 16 * 9 * staging);
  EXPECT_EQ(s.hbm_bytes(), s.spill_save_bytes + s.spill_reload_bytes +
                               tile::count(plan->program).hbm_read_bytes +
                               tile::count(plan->program).hbm_write_bytes);
}

// The tutorial's own blocks at 8192 rows leave no memory to rotate: 16 MiB of sums, 4 MiB of X and
// 2 MiB of W. Its sums could be spilled. Streaming X is faster and reads X once for each of the two
// column tiles of a block, instead of once.
TEST(Residency, TakesTheFasterOfSpillingAndStreaming) {
  const Program program = kernels::matmul_optimized(
      {8192, 8192, 0, 8192}, Tiling({{"BM", 16}, {"BN", 2}, {"BK", 8}}), kBf16);
  const auto plans = make_resident(program, kTrn1);
  ASSERT_TRUE(plans.ok());
  ASSERT_EQ(plans->size(), 2u);
  ASSERT_EQ(plans->back().partials.size(), 1u);
  EXPECT_TRUE(plans->back().partials[0].streams);
  Timeline timeline;
  const auto timing = simulate(program, kTrn1, {.timeline = &timeline});
  ASSERT_TRUE(timing.ok());
  EXPECT_EQ(timing->remedies, plans->back().remedies);
  EXPECT_EQ(timing->summary.spill_save_bytes, 0);
  const int64_t x = 8192LL * 8192 * 2, column_blocks = 8;
  EXPECT_EQ(timing->summary.hbm_read_bytes,
            tile::count(program).hbm_read_bytes + column_blocks * x);
  EXPECT_FALSE(simulate(program, kTrn1, {.longest_ns = timing->summary.total_time * 1e9})->gave_up);
  EXPECT_TRUE(
      simulate(program, kTrn1, {.longest_ns = timing->summary.total_time * 0.99e9})->gave_up);
  // A large block of V would be read once per row tile if it streamed, so the strip is spilled
  // instead.
  const auto spilled =
      simulate(kernels::xuv({4096, 7168, 4096, 18432},
                            Tiling({{"BM", 16}, {"Br", 8}, {"BN", 2}, {"BK", 4}}), kBf16),
               kTrn1);
  ASSERT_TRUE(spilled.ok());
  EXPECT_GT(spilled->summary.spill_save_bytes, 0);
}

// NKIBench matmul has nothing to spill, so W streams. It is read once per row tile, to the byte.
TEST(Residency, StreamsTheLargestLoad) {
  const Summary s = simulate(validation::nkibench_matmul_kernel(), kTrn1)->summary;
  const int64_t w = 5120LL * 12288 * 4, x = 4096LL * 5120 * 4;
  EXPECT_EQ(s.hbm_read_bytes, 32 * w + 12 * x + 65536);
  EXPECT_EQ(s.hbm_read_bytes, 9'059'762'176);
}

// NeuronMM 5.3: 1024 rows are the largest block that does not spill.
TEST(Residency, TheLargestRowBlockWithoutSpillsIsFastest) {
  const auto run = [](int64_t tiles) {
    const Tiling tiling({{"BM", tiles}, {"Br", 8}, {"BN", 2}, {"BK", 4}});
    return simulate(kernels::xuv({4096, 7168, 4096, 18432}, tiling, kBf16), kTrn1)->summary;
  };
  const Summary best = run(8);
  EXPECT_EQ(best.spill_save_bytes, 0);
  for (const int64_t smaller : {1, 2, 4}) {
    EXPECT_EQ(run(smaller).spill_save_bytes, 0);
    // 512 rows take as long.
    EXPECT_GT(run(smaller).total_time, best.total_time * 0.998) << smaller;
  }
  int64_t spilled = 0;
  for (const int64_t larger : {16, 32}) {
    const Summary summary = run(larger);
    EXPECT_GT(summary.spill_save_bytes, spilled);
    EXPECT_GT(summary.total_time, best.total_time * 1.05);
    spilled = summary.spill_save_bytes;
  }
}

TEST(Residency, TheErrorNamesTheBuffersThatDoNotFit) {
  tile::Builder b("too_large");
  const tile::BufferId x = b.sbuf("x_all", DType::kF32, {128, 30 * 2048});
  const tile::BufferId y = b.sbuf("y_all", DType::kF32, {128, 30 * 2048});
  b.zero(tile::at(x, {tile::all(128), tile::all(30 * 2048)}));
  b.copy(tile::at(y, {tile::all(128), tile::all(30 * 2048)}),
         tile::at(x, {tile::all(128), tile::all(30 * 2048)}));
  const auto timing = simulate(b.finish(), kTrn1);
  ASSERT_FALSE(timing.ok());
  EXPECT_NE(timing.error().message.find("x_all 30.00 MiB"), std::string::npos)
      << timing.error().message;
  EXPECT_NE(timing.error().message.find("usable on trn1"), std::string::npos);
}

}  // namespace
}  // namespace neuronmm::simulator
