// Checks which transfers count as repeated, what a kernel gains without them, and which buffers
// take turns in a what-if.

#include "trainium/trace/repeated_traffic.h"

#include <gtest/gtest.h>

#include "trainium/devices.h"
#include "trainium/trace/simulate.h"
#include "trainium/trace/trace_writer.h"

namespace neuronmm::trace {
namespace {

using simulator::kTrn2;

TraceTiming simulated(const std::vector<std::byte>& bytes, const TraceOptions& options = {}) {
  const auto file = TraceFile::parse(bytes, "trace");
  EXPECT_TRUE(file.ok());
  auto timing = simulate(*file, kTrn2, options);
  EXPECT_TRUE(timing.ok()) << timing.error().message;
  return std::move(*timing);
}

double latency(const std::vector<std::byte>& bytes, const TraceOptions& options = {}) {
  return simulated(bytes, options).timing.summary.total_time * 1e9;
}

TraceOptions without(LeftOut left_out) {
  TraceOptions options;
  options.left_out = left_out;
  return options;
}

// Loads the two halves of x `times` times each, and adds each half to a sum.
std::vector<std::byte> loads_again(int times) {
  TraceWriter w;
  const uint32_t x = w.input("x", "bf16", {128, 1024}), y = w.output("y", "bf16", {128, 512});
  const uint32_t sum = w.tensor("sum", "sbuf", "bf16", {128, 512}, 11);
  for (int time = 0; time < times; ++time) {
    for (int half = 0; half < 2; ++half) {
      const uint32_t a = w.tensor("a", "sbuf", "bf16", {128, 512}, 10);
      w.run("dma_copy", "dma",
            {{"dst", w.all(a)}, {"src", {x, {{1024, 128}, {1, 512}}, half * 512}}}, 20);
      w.run("tensor_copy", "vector", {{"dst", w.all(sum)}, {"src", w.all(a)}}, 21);
    }
  }
  w.run("dma_copy", "dma", {{"dst", w.all(y)}, {"src", w.all(sum)}}, 22);
  return w.finish();
}

TEST(RepeatedTraffic, ALoadOfTheSameElementsIsRepeated) {
  const TraceTiming timing = simulated(loads_again(4));
  ASSERT_EQ(timing.repeated.size(), 1u);
  EXPECT_EQ(timing.repeated[0].kind, LeftOut::kReloads);
  EXPECT_EQ(timing.repeated[0].transfers, 3 * 2);
  EXPECT_EQ(timing.repeated[0].bytes, 3 * 2 * 128 * 1024);
  EXPECT_TRUE(simulated(loads_again(1)).repeated.empty());
}

// Windows that overlap are larger together than the tensor, so the last ones count.
TEST(RepeatedTraffic, LoadsThatAreLargerThanTheirTensorAreRepeated) {
  TraceWriter w;
  const uint32_t x = w.input("x", "bf16", {128, 1024});
  for (int window = 0; window < 5; ++window) {
    const uint32_t a = w.tensor("a", "sbuf", "bf16", {128, 512}, 10);
    w.run("dma_copy", "dma",
          {{"dst", w.all(a)}, {"src", {x, {{1024, 128}, {1, 512}}, window * 128}}}, 20);
  }
  const TraceTiming timing = simulated(w.finish());
  ASSERT_EQ(timing.repeated.size(), 1u);
  EXPECT_EQ(timing.repeated[0].transfers, 3);
}

// One transfer that gives a row to all partitions loads it once.
TEST(RepeatedTraffic, ABroadcastIsNoReload) {
  TraceWriter w;
  const uint32_t x = w.input("x", "bf16", {1, 512});
  const uint32_t a = w.tensor("a", "sbuf", "bf16", {128, 512}, 10);
  w.run("dma_copy", "dma", {{"dst", w.all(a)}, {"src", {x, {{0, 128}, {1, 512}}, 0}}}, 20);
  EXPECT_TRUE(simulated(w.finish()).repeated.empty());
}

TEST(RepeatedTraffic, OnlyTensorsOfTheKernelItselfAreRoundTrips) {
  TraceWriter w;
  const uint32_t x = w.input("x", "bf16", {128, 512}), y = w.output("y", "bf16", {128, 512});
  const uint32_t h = w.tensor("h", "hbm", "bf16", {128, 512}, 9);
  const uint32_t a = w.tensor("a", "sbuf", "bf16", {128, 512}, 10);
  const uint32_t b = w.tensor("b", "sbuf", "bf16", {128, 512}, 11);
  w.run("dma_copy", "dma", {{"dst", w.all(a)}, {"src", w.all(x)}}, 20);
  w.run("dma_copy", "dma", {{"dst", w.all(h)}, {"src", w.all(a)}}, 21);
  w.run("dma_copy", "dma", {{"dst", w.all(b)}, {"src", w.all(h)}}, 22);
  w.run("dma_copy", "dma", {{"dst", w.all(y)}, {"src", w.all(b)}}, 23);
  const TraceTiming timing = simulated(w.finish());
  ASSERT_EQ(timing.repeated.size(), 2u);
  for (const RepeatedBytes& row : timing.repeated) {
    EXPECT_EQ(row.kind, LeftOut::kRoundTrips);
    EXPECT_EQ(row.bytes, 128 * 1024);
  }
  const TraceTiming kept = simulated(w.finish(), without(LeftOut::kRoundTrips));
  EXPECT_EQ(kept.timing.summary.hbm_bytes(), 2 * 128 * 1024);
  // A load and a store are left, which wait for each other as before.
  TraceWriter direct;
  const uint32_t x2 = direct.input("x", "bf16", {128, 512});
  const uint32_t y2 = direct.output("y", "bf16", {128, 512});
  const uint32_t a2 = direct.tensor("a", "sbuf", "bf16", {128, 512}, 10);
  direct.run("dma_copy", "dma", {{"dst", direct.all(a2)}, {"src", direct.all(x2)}}, 20);
  direct.run("dma_copy", "dma", {{"dst", direct.all(y2)}, {"src", direct.all(a2)}}, 23);
  EXPECT_NEAR(kept.timing.summary.total_time * 1e9, latency(direct.finish()), 1e-6);
}

// Without its reloads, a kernel that loads everything four times moves what one that loads it once
// does, and has the same work beside it.
TEST(RepeatedTraffic, AKernelWithoutReloadsMovesEveryByteOnce) {
  const TraceTiming kept = simulated(loads_again(4), without(LeftOut::kReloads));
  EXPECT_EQ(kept.timing.summary.hbm_bytes(), simulated(loads_again(1)).timing.summary.hbm_bytes());
  EXPECT_EQ(kept.timing.summary.vector.instruction_count, 8);
  EXPECT_LT(kept.timing.summary.total_time * 1e9, latency(loads_again(4)));
  const TraceTiming nothing = simulated(loads_again(4), without(LeftOut::kTransfers));
  EXPECT_EQ(nothing.timing.summary.hbm_bytes(), 0);
}

// Products of 512 columns. The kernel makes `made` tiles in PSUM and uses them in turns.
std::vector<std::byte> products(int made, int count = 12) {
  TraceWriter w;
  const uint32_t x = w.input("x", "bf16", {128, 512});
  const uint32_t a = w.tensor("a", "sbuf", "bf16", {128, 512}, 10);
  w.run("dma_copy", "dma", {{"dst", w.all(a)}, {"src", w.all(x)}}, 20);
  std::vector<uint32_t> tiles;
  for (int i = 0; i < made; ++i) tiles.push_back(w.tensor("sums", "psum", "fp32", {128, 512}, 12));
  for (int i = 0; i < count; ++i) {
    const uint32_t out = w.tensor("out", "sbuf", "fp32", {128, 512}, 11);
    const uint32_t sums = tiles[static_cast<size_t>(i % made)];
    w.run("nc_matmul", "tensor",
          {{"dst", w.all(sums)}, {"stationary", w.columns(a, 0, 128)}, {"moving", w.all(a)}}, 21);
    w.run("tensor_copy", "vector", {{"dst", w.all(out)}, {"src", w.all(sums)}}, 22);
  }
  return w.finish();
}

TraceOptions turns(int64_t copies) {
  TraceOptions options;
  options.buffer_limits.copies_of["sums"] = copies;
  options.buffer_limits.splits = true;
  return options;
}

// A kernel that reuses one tile runs, with buffers for two, as one that was written with two.
TEST(BuffersThatTakeTurns, OneTileBecomesSeveral) {
  const double one = latency(products(1));
  for (const int64_t copies : {2, 4}) {
    EXPECT_NEAR(latency(products(1), turns(copies)), latency(products(static_cast<int>(copies))),
                1e-6);
    EXPECT_LT(latency(products(1), turns(copies)), one);
  }
  EXPECT_NEAR(latency(products(1), turns(1)), one, 1e-6);
}

TEST(BuffersThatTakeTurns, MoreThanTheBanksAreRefused) {
  const std::vector<std::byte> bytes = products(1);
  const auto file = TraceFile::parse(bytes, "trace");
  ASSERT_TRUE(file.ok());
  const auto timing = simulate(*file, kTrn2, turns(9));
  ASSERT_FALSE(timing.ok());
  EXPECT_NE(timing.error().message.find("PSUM"), std::string::npos) << timing.error().message;
}

// A sum is read by each product after the first, so only the first one takes a new tile.
TEST(BuffersThatTakeTurns, ASumStaysInItsTile) {
  const auto sums = [](int made) {
    TraceWriter w;
    const uint32_t x = w.input("x", "bf16", {128, 512});
    const uint32_t a = w.tensor("a", "sbuf", "bf16", {128, 512}, 10);
    w.run("dma_copy", "dma", {{"dst", w.all(a)}, {"src", w.all(x)}}, 20);
    std::vector<uint32_t> tiles;
    for (int i = 0; i < made; ++i) {
      tiles.push_back(w.tensor("sums", "psum", "fp32", {128, 512}, 12));
    }
    for (int i = 0; i < 8; ++i) {
      const uint32_t tile = tiles[static_cast<size_t>(i % made)];
      for (int k = 0; k < 3; ++k) {
        w.run("nc_matmul", "tensor",
              {{"dst", w.all(tile)}, {"stationary", w.columns(a, 0, 128)}, {"moving", w.all(a)}},
              21, {{"accumulate", k > 0}});
      }
      const uint32_t out = w.tensor("out", "sbuf", "fp32", {128, 512}, 11);
      w.run("tensor_copy", "vector", {{"dst", w.all(out)}, {"src", w.all(tile)}}, 22);
    }
    return w.finish();
  };
  EXPECT_NEAR(latency(sums(1), turns(2)), latency(sums(2)), 1e-6);
}

// A tile that an instruction reads and replaces keeps its place.
TEST(BuffersThatTakeTurns, ATileThatIsUpdatedStays) {
  TraceWriter w;
  const uint32_t x = w.input("x", "bf16", {128, 512});
  const uint32_t a = w.tensor("sums", "sbuf", "bf16", {128, 512}, 10);
  w.run("dma_copy", "dma", {{"dst", w.all(a)}, {"src", w.all(x)}}, 20);
  for (int i = 0; i < 4; ++i) {
    w.run("tensor_tensor", "vector", {{"dst", w.all(a)}, {"src1", w.all(a)}, {"src2", w.all(a)}},
          21);
  }
  EXPECT_NEAR(latency(w.finish(), turns(2)), latency(w.finish()), 1e-6);
}

// The parts of the chain add up to the time, and name what was waited for.
TEST(Chain, NamesTheBankThatProductsWaitFor) {
  const TraceTiming timing = simulated(products(1));
  double sum = 0;
  for (const ChainPart& part : timing.chain) sum += part.ns;
  EXPECT_NEAR(sum + timing.fixed_ns, timing.timing.summary.total_time * 1e9, 1e-6);
  // An eviction of 512 fp32 numbers after each product takes longest.
  EXPECT_EQ(timing.chain[0].cause, Cause::kBank);
  EXPECT_EQ(timing.chain[0].unit, simulator::Unit::kVector);
  EXPECT_EQ(timing.live_copies.at("sums"), 1);
}

}  // namespace
}  // namespace neuronmm::trace
