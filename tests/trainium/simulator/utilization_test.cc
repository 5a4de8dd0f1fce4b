// Checks that the bins keep the time that was added, however often they are merged.

#include "trainium/simulator/utilization.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace neuronmm::simulator {
namespace {

struct Work {
  int track = 0;
  double begin = 0, end = 0;
};

// Returns the time of a track between `from` and `to`, summed over all intervals.
double busy_between(const std::vector<Work>& all, int track, double from, double to) {
  double busy = 0;
  for (const Work& work : all) {
    if (work.track != track) continue;
    busy += std::max(0.0, std::min(work.end, to) - std::max(work.begin, from));
  }
  return busy;
}

TEST(Utilization, EveryBinHasTheTimeThatWasAddedToIt) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  constexpr int kTracks = 3;
  Utilization utilization;
  std::vector<Work> all;
  double now = 0;
  for (int i = 0; i < 2000; ++i) {
    now += std::exponential_distribution<>(0.05)(random);
    const double length = std::exponential_distribution<>(0.02)(random);
    all.push_back({static_cast<int>(random() % kTracks), now, now + length});
    utilization.add(all.back().track, now, now + length);
  }
  const double bin = utilization.bin_ns();
  ASSERT_GT(bin, 1.0);  // The bins were merged.
  ASSERT_LE(now, bin * static_cast<double>(Utilization::kMostBins));
  // A bin is a sum of at most all.size() parts, each rounded, of times up to the last one.
  const double tolerance = static_cast<double>(all.size()) * 1e-16 * 4 * now;
  for (int track = 0; track < kTracks; ++track) {
    for (size_t i = 0; i < Utilization::kMostBins; ++i) {
      const double from = bin * static_cast<double>(i);
      EXPECT_NEAR(utilization.share(track, i) * bin, busy_between(all, track, from, from + bin),
                  tolerance);
    }
  }
}

TEST(Utilization, EmptyWorkAndUnknownTracksAreIdle) {
  Utilization utilization;
  utilization.add(1, 5, 5);
  EXPECT_EQ(utilization.share(1, 5), 0.0);
  EXPECT_EQ(utilization.share(7, 0), 0.0);
}

}  // namespace
}  // namespace neuronmm::simulator
