// Checks the costs of the operations around the MLPs: their counts by hand, and what limits them.

#include "trainium/device/roofline.h"

#include <cmath>

#include <gtest/gtest.h>

#include "trainium/devices.h"

namespace neuronmm::device {
namespace {

// DMA start and completion on trn1, for operands and result.
constexpr double kOverhead = 2 * (1000 + 300) * 1e-9;

TEST(Roofline, TheSlowestResourceDecides) {
  const double tensor = 2 * 128 * 128 * 2.8e9 * 6 / 7, hbm = 16 * 17e9, vector = 128 * 1.12e9,
               scalar = 128 * 1.4e9;
  const double second = 1 + kOverhead;
  EXPECT_NEAR(roofline_seconds(simulator::kTrn1, {.flops = tensor}), second, 1e-9);
  EXPECT_NEAR(roofline_seconds(simulator::kTrn1, {.hbm_bytes = hbm}), second, 1e-9);
  EXPECT_NEAR(roofline_seconds(simulator::kTrn1, {.vector_elements = vector}), second, 1e-9);
  EXPECT_NEAR(roofline_seconds(simulator::kTrn1, {.scalar_elements = scalar}), second, 1e-9);
  EXPECT_NEAR(roofline_seconds(simulator::kTrn1, {tensor, 0.5 * hbm, 0.9 * vector, 0.1 * scalar}),
              second, 1e-9);
  EXPECT_NEAR(roofline_seconds(simulator::kTrn1, {}), kOverhead, 1e-15);
}

// A core alone on its stack is limited by its DMA engines.
TEST(Roofline, BytesMoveAtTheLesserRate) {
  for (const simulator::DeviceSpec& device : simulator::devices()) {
    const double rate =
        std::min<double>(device.hbm_bandwidth, device.dma_engines * device.dma_bandwidth);
    const double more =
        roofline_seconds(device, {.hbm_bytes = 3e9}) - roofline_seconds(device, {.hbm_bytes = 2e9});
    EXPECT_NEAR(more, 1 / rate, 1e-9) << device.name;
  }
}

TEST(Roofline, AProjectionReadsItsOperandsAndWritesItsResult) {
  const Work work = linear_work(3, 5, 7, true);
  EXPECT_EQ(work.flops, 2 * 3 * 5 * 7);
  EXPECT_EQ(work.hbm_bytes, 2 * (3 * 5 + 5 * 7 + 3 * 7 + 7));
  EXPECT_EQ(work.vector_elements, 3 * 7);
  EXPECT_EQ(linear_work(3, 5, 7, false).hbm_bytes, 2 * (3 * 5 + 5 * 7 + 3 * 7));
}

TEST(Roofline, AGatherReadsAndWritesEveryElement) {
  const Work work = gather_work(3, 5);
  EXPECT_EQ(work.hbm_bytes, 2 * 2 * 3 * 5);
  EXPECT_EQ(work.vector_elements, 3 * 5);
}

// Compares the counts with a loop over every query and key.
TEST(Roofline, AttentionCountsOnlyVisibleKeys) {
  for (const int64_t window : {0, 1, 4, 100}) {
    for (const int64_t first : {0, 1, 9}) {
      for (const int64_t M : {1, 2, 13}) {
        const ops::AttentionShape shape{6, 2, 8, window};
        double pairs = 0;
        int64_t earliest = first + M;
        for (int64_t i = first; i < first + M; ++i) {
          for (int64_t j = 0; j <= i; ++j) {
            if (window > 0 && j <= i - window) continue;
            pairs += 6;
            earliest = std::min(earliest, j);
          }
        }
        const Work work = attention_work(shape, M, first);
        const double keys = 2 * 8 * static_cast<double>(first + M - earliest + M);
        EXPECT_EQ(work.scalar_elements, pairs) << M << " " << first << " " << window;
        EXPECT_EQ(work.flops, 2 * 2 * 8 * pairs);
        EXPECT_EQ(work.hbm_bytes, 2 * (2.0 * static_cast<double>(M) * 6 * 8 + 2 * keys))
            << M << " " << first << " " << window;
      }
    }
  }
}

}  // namespace
}  // namespace neuronmm::device
