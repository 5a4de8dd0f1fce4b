// Compares the times of collectives with the formulas of collective.h, with numbers put in by hand.

#include "trainium/device/collective.h"

#include <gtest/gtest.h>

#include "trainium/devices.h"

namespace neuronmm::device {
namespace {

using simulator::DeviceSpec;

DeviceSpec device() {
  DeviceSpec d = simulator::kTrn2;
  d.dma_engines.value = 10;
  d.dma_bandwidth.value = 20;
  d.hbm_bandwidth.value = 400;
  d.cores_per_chip.value = 4;
  d.link_bandwidth.value = 80;
  d.collective_step_ns.value = 1000;
  return d;
}

TEST(AllReduce, OneCoreHasNothingToAdd) { EXPECT_EQ(all_reduce_seconds(device(), 1, 1e9), 0); }

TEST(AllReduce, FewBytesAreExchangedDirectly) {
  // Direct exchange takes 1000 + 3 B / 200 ns for B bytes. A ring would take six steps of 1000 + B
  // / 4 / 200 ns.
  EXPECT_NEAR(all_reduce_seconds(device(), 4, 2000), 1030e-9, 1e-15);
}

TEST(AllReduce, ManyBytesGoAroundARing) {
  // A ring takes six steps of 1000 + B / 4 / 200 ns for B bytes. Direct exchange would take 1000 +
  // 3 B / 200 ns.
  EXPECT_NEAR(all_reduce_seconds(device(), 4, 1e6), 13500e-9, 1e-15);
}

TEST(AllReduce, TheShareOfHbmLimitsTheRate) {
  DeviceSpec d = device();
  d.hbm_bandwidth.value = 100;
  EXPECT_NEAR(all_reduce_seconds(d, 4, 1e6), 6 * (1000 + 2500) * 1e-9, 1e-15);
}

TEST(AllReduce, LinksLimitTheRateAcrossChips) {
  // A ring has a quarter of the 80 GB/s, and so has each of the four cores.
  EXPECT_NEAR(all_reduce_seconds(device(), 8, 1e6), 14 * (1000 + 6250) * 1e-9, 1e-12);
  EXPECT_NEAR(all_reduce_seconds(device(), 8, 1000), (1000 + 350) * 1e-9, 1e-15);
}

// The cores of a stack together must not exceed its bandwidth.
TEST(SharedHbm, CoresOfAStackGetEqualParts) {
  for (const DeviceSpec& alone : simulator::devices()) {
    for (const int64_t cores : {1, 2, 8}) {
      const DeviceSpec one = simulator::with_shared_stack(alone, cores);
      const double sharing = std::min(static_cast<double>(cores), double{alone.cores_per_stack});
      EXPECT_LE(one.hbm_bandwidth, alone.hbm_bandwidth);
      EXPECT_LE(sharing * one.hbm_bandwidth, alone.hbm_stack_bandwidth * (1 + 1e-12));
    }
  }
  EXPECT_EQ(simulator::with_shared_stack(simulator::kTrn2, 2).hbm_bandwidth, 358);
  EXPECT_EQ(simulator::with_shared_stack(simulator::kTrn1, 2).hbm_bandwidth, 410);
}

}  // namespace
}  // namespace neuronmm::device
