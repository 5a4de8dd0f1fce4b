// A cache with a limit keeps some experts in memory.

#include "cpu/expert_cache.h"

#include <algorithm>
#include <memory>
#include <new>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "ops/owned_tensor.h"

namespace neuronmm::cpu {
namespace {

// Ten experts of equal size in a cache that holds four of them.
class ExpertCaches : public testing::Test {
 protected:
  static constexpr int64_t kExperts = 10, kHeld = 4;

  ExpertCaches() {
    for (int i = 0; i < 3; ++i) {
      tensors_.push_back(std::make_unique<OwnedTensor>(DType::kF32, Shape{64, 64},
                                                       random_values(64 * 64, random_, 1.0f)));
    }
    weight_.gate.w_t = tensors_[0]->view();
    weight_.up.w_t = tensors_[1]->view();
    weight_.down.w_t = tensors_[2]->view();
    bytes_ = cache_.packed_bytes(weight_);
    cache_.set_limit(kHeld * bytes_);
    for (int64_t i = 0; i < kExperts; ++i) EXPECT_EQ(cache_.add(weight_), i);
  }
  // Loads all of these experts, and returns how many of them were not in memory.
  int64_t load(const std::vector<int64_t>& experts, bool many_tokens = false) {
    const int64_t before = cache_.loads();
    for (size_t first = 0; first < experts.size();) {
      const std::span<const int64_t> rest = std::span(experts).subspan(first);
      const size_t count = cache_.load(rest, many_tokens);
      EXPECT_GE(count, 1);
      for (const int64_t expert : rest.first(count)) {
        EXPECT_EQ(cache_[expert].gate.in_features(), 64);  // it is in memory
      }
      EXPECT_LE(cache_.resident_bytes(), kHeld * bytes_);
      first += count;
    }
    return cache_.loads() - before;
  }

  std::mt19937_64 random_{5};
  std::vector<std::unique_ptr<OwnedTensor>> tensors_;
  ops::MlpWeight weight_;
  ExpertCache cache_{ForeignWeights::kNearest};
  int64_t bytes_ = 0;
};

TEST(Arenas, KeepTheirPieceIfThereIsNoMemoryForAnother) {
  Arena arena(64);
  const Buffer<float> first = arena.take<float>(16);  // the whole piece
  EXPECT_THROW(arena.take<float>(int64_t{1} << 58), std::bad_alloc);
  const Buffer<float> second = arena.take<float>(16);
  EXPECT_NE(first.data(), second.data());
}

TEST_F(ExpertCaches, AreFilledWhenExpertsAreAdded) {
  EXPECT_EQ(cache_.resident_bytes(), kHeld * bytes_);
  EXPECT_EQ(load({0, 1, 2, 3}), 0);
  EXPECT_EQ(load({4}), 1);
}

TEST_F(ExpertCaches, DropWhatWasChosenLongestAgo) {
  EXPECT_EQ(load({0, 2}), 0);
  EXPECT_EQ(load({7}), 1);  // in the place of 1
  EXPECT_EQ(load({0, 2, 3, 7}), 0);
  EXPECT_EQ(load({1}), 1);  // in the place of 0
  EXPECT_EQ(load({2, 3, 7}), 0);
  EXPECT_EQ(load({0}), 1);
}

TEST_F(ExpertCaches, KeepTheirExpertsThroughPassesOfManyTokens) {
  std::vector<int64_t> all(kExperts);
  std::iota(all.begin(), all.end(), 0);
  load(all, true);
  // Two experts of a call are in memory together, and so many places are lost to the pass.
  EXPECT_LE(load(all, true), kExperts - kHeld + 2);
  EXPECT_LE(load({0, 1, 2, 3}), 2);
}

TEST_F(ExpertCaches, HoldOneExpertThatIsLargerThanTheLimit) {
  ExpertCache small(ForeignWeights::kNearest);
  small.set_limit(1);
  for (int i = 0; i < 3; ++i) small.add(weight_);
  EXPECT_EQ(small.resident_bytes(), 0);
  const int64_t wanted[] = {0, 2};
  EXPECT_EQ(small.load(wanted, false), 1);
  EXPECT_EQ(small.resident_bytes(), bytes_);
  EXPECT_EQ(small.load(std::span(wanted).subspan(1), false), 1);
  EXPECT_EQ(small.resident_bytes(), bytes_);
}

TEST_F(ExpertCaches, WithoutALimitHoldAll) {
  ExpertCache unlimited(ForeignWeights::kNearest);
  std::vector<int64_t> all;
  for (int i = 0; i < 20; ++i) all.push_back(unlimited.add(weight_));
  EXPECT_EQ(unlimited.load(all, false), all.size());
  EXPECT_EQ(unlimited.loads(), 0);
  for (const int64_t expert : all) EXPECT_EQ(unlimited[expert].down.out_features(), 64);
}

}  // namespace
}  // namespace neuronmm::cpu
