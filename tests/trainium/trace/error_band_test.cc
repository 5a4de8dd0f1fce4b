// Which class a kernel is of, from its bounds and its latency.

#include "trainium/trace/error_band.h"

#include <gtest/gtest.h>

namespace neuronmm::trace {
namespace {

TraceTiming timing(double latency_ns, TraceBound bound) {
  TraceTiming timing;
  timing.timing.summary.total_time = latency_ns * 1e-9;
  timing.bound = bound;
  return timing;
}

TEST(ErrorBand, TheLargestBoundIsTheClass) {
  EXPECT_EQ(class_of(timing(150, {.tensor_ns = 100, .vector_ns = 90})), KernelClass::kTensor);
  EXPECT_EQ(class_of(timing(150, {.tensor_ns = 80, .vector_ns = 90})), KernelClass::kElementwise);
  EXPECT_EQ(class_of(timing(150, {.scalar_ns = 91, .dma_ns = 90})), KernelClass::kElementwise);
  EXPECT_EQ(class_of(timing(150, {.gpsimd_ns = 91, .dma_ns = 90})), KernelClass::kElementwise);
  EXPECT_EQ(class_of(timing(150, {.scalar_ns = 91, .dma_ns = 92})), KernelClass::kDma);
  EXPECT_EQ(class_of(timing(150, {.tensor_ns = 91, .compulsory_ns = 92})), KernelClass::kDma);
}

TEST(ErrorBand, BelowHalfOfTheLatencyAKernelWaits) {
  EXPECT_EQ(class_of(timing(201, {.tensor_ns = 100, .dma_ns = 99})), KernelClass::kWaiting);
  EXPECT_EQ(class_of(timing(199, {.tensor_ns = 100, .dma_ns = 99})), KernelClass::kTensor);
}

TEST(ErrorBand, EveryClassHasOneWhereRowsWerePredictedBlindAndNoneElsewhere) {
  for (const KernelClass each : {KernelClass::kDma, KernelClass::kTensor, KernelClass::kElementwise,
                                 KernelClass::kWaiting}) {
    const auto band = error_band(each, "nki", "trn2");
    ASSERT_TRUE(band) << class_name(each);
    EXPECT_GT(band->rows, 0) << class_name(each);
    EXPECT_GT(band->percent, 0) << class_name(each);
    EXPECT_FALSE(error_band(each, "neuronxcc", "trn2"));
    EXPECT_FALSE(error_band(each, "nki", "trn1"));
  }
}

}  // namespace
}  // namespace neuronmm::trace
