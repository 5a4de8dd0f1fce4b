// These tests check that the memory of matrices is reused, and that it is not kept for ever.

#include "base/scratch_matrix.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace neuronmm {
namespace {

TEST(ScratchMatrix, HasItsShapeAndAlignedMemory) {
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{0, 5}, {1, 1}, {7, 33}, {600, 900}}) {
    const ScratchMatrix x(rows, columns);
    EXPECT_EQ(x.rows(), rows);
    EXPECT_EQ(x.columns(), columns);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data()) % 64, 0u);
    std::fill_n(x.data(), rows * columns, 1.0f);
  }
}

TEST(ScratchMatrix, TheNextOfItsSizeHasTheSameMemory) {
  const float* first = nullptr;
  {
    const ScratchMatrix x(1000, 1000);
    first = x.data();
  }
  const ScratchMatrix y(1000, 990);
  EXPECT_EQ(y.data(), first);
}

TEST(ScratchMatrix, MatricesThatLiveTogetherShareNothing) {
  std::vector<std::unique_ptr<ScratchMatrix>> all;
  for (int i = 0; i < 40; ++i) {
    all.push_back(std::make_unique<ScratchMatrix>(300, 300 + i));
    std::fill_n(all.back()->data(), 300 * (300 + i), static_cast<float>(i));
  }
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(all[static_cast<size_t>(i)]->data()[0], static_cast<float>(i));
    EXPECT_EQ(all[static_cast<size_t>(i)]->data()[300 * (300 + i) - 1], static_cast<float>(i));
  }
}

TEST(ScratchMatrix, ManyThreadsMayMakeThem) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i) {
        const ScratchMatrix x(100 + i, 1000);
        std::fill_n(x.data(), (100 + i) * 1000, static_cast<float>(t));
        float* const end = x.data() + (100 + i) * 1000;
        EXPECT_TRUE(
            std::all_of(x.data(), end, [t](float v) { return v == static_cast<float>(t); }));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace neuronmm
