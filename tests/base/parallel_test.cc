#include "base/parallel.h"

#include <vector>

#include <gtest/gtest.h>

namespace neuronmm {
namespace {

TEST(Parallel, ForVisitsEveryIndexOnce) {
  for (const int64_t count : {0, 1, 7, 1000}) {
    std::vector<int> visits(count, 0);
    parallel_for(count, [&](int64_t i) { ++visits[i]; });
    EXPECT_EQ(visits, std::vector<int>(count, 1)) << count;
  }
}

TEST(Parallel, RangesCoverEveryIndexOnce) {
  const int before = num_threads();
  for (const int threads : {1, 3, 8}) {
    set_num_threads(threads);
    for (const int64_t count : {0, 1, 7, 1000}) {
      std::vector<int> visits(count, 0);
      parallel_ranges(count, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) ++visits[i];
      });
      EXPECT_EQ(visits, std::vector<int>(count, 1)) << count << " with " << threads << " threads";
    }
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace neuronmm
