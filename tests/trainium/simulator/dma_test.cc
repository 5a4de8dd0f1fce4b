// Checks the DMA system: latencies, bandwidth, engine subsets and queues.

#include "trainium/simulator/dma.h"

#include <algorithm>
#include <random>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

namespace neuronmm::simulator {
namespace {

const DeviceSpec kTrn1 = *find_device("trn1"), kTrn2 = *find_device("trn2");

// The parameters of trn2. The first byte moves after 740 ns and the consumer waits another 300 ns.
// An engine moves 24.1 B/ns. It needs 1.5 ns per chunk and 20 ns per transfer in addition.
double engine_ns(double partitions, double row) { return 20 + partitions * (row / 24.1 + 1.5); }
// A sequencer takes 645 ns for 128 rows, of which 169 do not depend on the rows.
double sequencer_ns(double partitions) { return 169 + (645 - 169) * partitions / 128; }

Transfer rows(int64_t partitions, int64_t bytes, int64_t first = 0) {
  return {.first_partition = first,
          .partitions = partitions,
          .bytes_per_partition = bytes,
          .chunk_bytes = bytes};
}

TEST(Dma, ATransferTakesItsLatenciesAndItsEngineTime) {
  DmaSystem dma(kTrn2);
  const TransferTimes times = dma.submit(DmaSystem::Class::kLoad, 100, rows(128, 2048));
  EXPECT_NEAR(times.data_begin, 100 + 645 + 740, 0.01);
  EXPECT_NEAR(times.data_end, times.data_begin + engine_ns(8, 2048), 0.05);
  EXPECT_NEAR(times.visible, times.data_end + 300, 1e-6);
}

// Partitions 0 to 3 lie on one engine, which takes the time of these four rows.
TEST(Dma, EightPartitionsShareAnEngine) {
  DmaSystem dma(kTrn2);
  const TransferTimes one = dma.submit(DmaSystem::Class::kLoad, 0, rows(4, 8192));
  EXPECT_NEAR(one.data_end - one.data_begin, engine_ns(4, 8192), 0.05);
  // Other partitions lie on another engine and wait only for the sequencer.
  const TransferTimes other = dma.submit(DmaSystem::Class::kLoad, 0, rows(4, 8192, 8));
  EXPECT_NEAR(other.data_end, one.data_end + sequencer_ns(4), 0.05);
  // Transfers on the same engine run one after the other.
  const TransferTimes same = dma.submit(DmaSystem::Class::kLoad, 0, rows(4, 8192, 4));
  EXPECT_NEAR(same.data_end, one.data_end + engine_ns(4, 8192), 0.05);
}

// A queue issues every 860 ns. Eight loading queues take turns.
TEST(Dma, AQueueIssuesOneTransferPerInterval) {
  DmaSystem dma(kTrn1);
  std::vector<TransferTimes> times;
  for (int i = 0; i < 9; ++i) times.push_back(dma.submit(DmaSystem::Class::kLoad, 0, rows(8, 64)));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(times[static_cast<size_t>(i)].issue, 0);
  EXPECT_EQ(times[8].queue, times[0].queue);
  EXPECT_EQ(times[8].issue, 860);
}

// A store that waits for its data leaves the engines to the loads after it.
TEST(Dma, ALateTransferDoesNotBlockEarlierOnes) {
  DmaSystem dma(kTrn2);
  dma.submit(DmaSystem::Class::kStore, 50'000, rows(128, 4096));
  const TransferTimes load = dma.submit(DmaSystem::Class::kLoad, 0, rows(128, 4096));
  EXPECT_NEAR(load.data_end, 645 + 740 + engine_ns(8, 4096), 0.05);
}

TEST(Dma, ASequencerTriggersOneTransferAfterTheOther) {
  DmaSystem dma(kTrn2);
  for (int i = 1; i <= 20; ++i) {
    const TransferTimes times = dma.submit(DmaSystem::Class::kLoad, 0, rows(128, 64));
    EXPECT_NEAR(times.issue, i * 645, 0.1);
    EXPECT_EQ(times.sequencer_ns, 645);
  }
  DmaSystem first_core(kTrn1);  // Its descriptors exist before the kernel begins.
  EXPECT_EQ(first_core.submit(DmaSystem::Class::kLoad, 0, rows(128, 64)).issue, 0);
}

TEST(Dma, DescriptorsTakeTimeByRow) {
  DmaSystem dma(kTrn2);
  EXPECT_NEAR(dma.submit(DmaSystem::Class::kLoad, 0, rows(1, 64)).issue, sequencer_ns(1), 0.01);
  Transfer described = rows(128, 64);
  described.described = true;
  EXPECT_EQ(dma.submit(DmaSystem::Class::kLoad, 0, described).sequencer_ns, 169);
}

TEST(Dma, ATileThatIsLoadedAgainSoonCostsItsTriggerOnly) {
  DmaSystem dma(kTrn2);
  const auto load = [&](uint64_t content, int64_t bytes) {
    Transfer transfer = rows(128, bytes);
    transfer.content = content;
    return dma.submit(DmaSystem::Class::kLoad, 0, transfer).sequencer_ns;
  };
  EXPECT_EQ(load(1, 1024), 645);
  EXPECT_EQ(load(2, 1024), 645);
  EXPECT_EQ(load(1, 1024), 169);
  // Half of SBUF has been loaded since then.
  EXPECT_EQ(load(3, 104 * 1024), 645);
  EXPECT_EQ(load(2, 1024), 645);
}

// Small chunks are slow: rows of 256 B reach 21 B/ns, as the published screenshot shows (97 ns for
// 8).
TEST(Dma, ChunksOf256BytesTakeTheMeasuredTime) {
  DmaSystem dma(kTrn2);
  const TransferTimes times = dma.submit(DmaSystem::Class::kLoad, 0, rows(8, 256));
  EXPECT_NEAR(times.data_end - times.data_begin - 20, 97, 0.1);
}

// Whatever the order of reservations, no lane is busy for longer than the time there is.
TEST(Dma, ALaneIsNeverBusierThanItsTime) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    Lane lane;
    double end = 0;
    for (int i = 0; i < 400; ++i) {
      const double from = static_cast<double>(random() % 100'000);
      const double duration = 1 + static_cast<double>(random() % 2000);
      const double done = lane.reserve(from, duration);
      EXPECT_GE(done, from + duration - 0.1);
      end = std::max(end, done);
    }
    EXPECT_LE(lane.busy(), end * (1 + 1e-3));
  }
}

// A saturated core moves bytes at the rate of its 16 engines, 386 GB/s less the fixed costs.
TEST(Dma, ManyTransfersMoveAtTheRateOfAllEngines) {
  DmaSystem dma(kTrn2);
  double end = 0;
  for (int i = 0; i < 1000; ++i) {
    end = std::max(end, dma.submit(DmaSystem::Class::kLoad, 0, rows(128, 16384)).data_end);
  }
  EXPECT_NEAR((end - 740) / 1000, engine_ns(8, 16384), 1);
}

// Compares the union with a count of the whole ns that an interval covers. Intervals come in any
// order, also far before the newest.
TEST(IntervalUnion, CountsEveryCoveredMomentOnce) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    SCOPED_TRACE(fmt::format("seed {} round {}", seed, round));
    const int longest = 1 << random() % 10;
    std::vector<bool> covered(5000);
    IntervalUnion all;
    for (int i = 0; i < 300; ++i) {
      const int begin = static_cast<int>(random() % 4000);
      const int end = begin + 1 + static_cast<int>(random() % static_cast<unsigned>(longest));
      std::fill(covered.begin() + begin, covered.begin() + std::min(end, 5000), true);
      all.add(begin, std::min(end, 5000));
    }
    EXPECT_EQ(all.length(), std::count(covered.begin(), covered.end(), true));
  }
}

TEST(IntervalUnion, ALongRunLosesNoLength) {
  IntervalUnion all;
  constexpr int kMany = 1'000'000;
  for (int i = 0; i < kMany; ++i) all.add(3.0 * i, 3.0 * i + 1);
  EXPECT_EQ(all.length(), kMany);
  all.add(3.0 * (kMany - 10) + 1, 3.0 * kMany);  // Fills the last gaps.
  EXPECT_EQ(all.length(), kMany + 2 * 10);
}

// A store that is submitted first and waits leaves a gap in which later loads move data.
TEST(Dma, ActiveTimeIncludesTransfersThatFillAGap) {
  DmaSystem dma(kTrn2);
  const TransferTimes store = dma.submit(DmaSystem::Class::kStore, 50'000, rows(128, 4096));
  const TransferTimes load = dma.submit(DmaSystem::Class::kLoad, 0, rows(128, 4096));
  const double both = store.data_end - store.data_begin + load.data_end - load.data_begin;
  EXPECT_NEAR(dma.active_time(), both, 1e-6);
}

}  // namespace
}  // namespace neuronmm::simulator
