// Tests that each step of a forward pass has work for all cores of a large machine. The steps are
// recorded from the loops themselves, so no such machine is needed.

#include <algorithm>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "many_cores/recorded_pass.h"

namespace neuronmm::many_cores {
namespace {

class ManyCores : public testing::TestWithParam<std::tuple<int, WeightBits>> {};

TEST_P(ManyCores, HaveATaskInEveryStepThatAllowsIt) {
  const auto [index, bits] = GetParam();
  const ModelShape& shape = model_shapes()[static_cast<size_t>(index)];
  const RecordedModel model(shape, bits);
  for (const Pass& pass : passes()) {
    for (const int threads : {8, 32, 96}) {
      for (const Step& step : model.record(pass, threads)) {
        EXPECT_GE(step.tasks, std::min<int64_t>(threads, step.allowed_tasks()))
            << shape.name << ", " << pass.name << " with " << pass.sequences << " sequences, "
            << threads << " threads: " << step.function << " " << step.weights;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, ManyCores,
                         testing::Combine(testing::Range(0, 3),
                                          testing::Values(WeightBits::kFour,
                                                          WeightBits::kSixteen)));

// The recorder must see what a pass does: all weights are read once per pass of one token, and
// every product has its multiply-adds.
TEST(Recorder, CountsTheWeightsAndKeysOfAPass) {
  const ModelShape& s = model_shapes()[0];
  const RecordedModel model(s, WeightBits::kSixteen);
  const Pass write = {"write", 1, 1, 1000};
  for (const int threads : {1, 7, 96}) {
    ThreadLoad sum;
    for (const Step& step : model.record(write, threads)) {
      for (const ThreadLoad& load : step.threads) {
        sum.weight_bytes += load.weight_bytes;
        sum.kv_bytes += load.kv_bytes;
      }
    }
    const int64_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
    const int64_t layer = s.hidden_size * (2 * q + 2 * kv + 3 * s.intermediate_size);
    EXPECT_EQ(sum.weight_bytes, 2 * (layer + s.hidden_size * s.vocab_size)) << threads;
    EXPECT_EQ(sum.kv_bytes, 2 * 2 * 1001 * kv) << threads;
  }
}

TEST(Recorder, DividesALoopAsTheThreadsBeginIt) {
  StepRecorder recorder;
  const int before = num_threads();
  set_num_threads(3);
  {
    const RecordLoops recording(recorder);
    parallel_for(8, [](int64_t) { parallel_for(5, [](int64_t) {}); });
  }
  set_num_threads(before);
  ASSERT_EQ(recorder.steps().size(), 1u) << "loops within loops are not steps";
  const Step& step = recorder.steps()[0];
  EXPECT_EQ(step.tasks, 8);
  ASSERT_EQ(step.threads.size(), 3u);
  EXPECT_EQ(step.threads[0].tasks, 2);
  EXPECT_EQ(step.threads[1].tasks, 3);
  EXPECT_EQ(step.threads[2].tasks, 3);
  EXPECT_DOUBLE_EQ(step.imbalance(), 9.0 / 8);
}

}  // namespace
}  // namespace neuronmm::many_cores
