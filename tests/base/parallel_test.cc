// This test checks parallel loops: that every iteration runs once, nesting, concurrent callers,
// exceptions and stopping.

#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/threads.h"

namespace neuronmm {
namespace {

class Parallel : public testing::Test {
 protected:
  ~Parallel() override { set_num_threads(before_); }

 private:
  const int before_ = num_threads();
};

TEST_F(Parallel, ForVisitsEveryIndexOnce) {
  for (const int threads : {1, 2, 8, 3}) {
    set_num_threads(threads);
    for (const int64_t count : {0, 1, 7, 1000}) {
      std::vector<int> visits(count, 0);
      parallel_for(count, [&](int64_t i) { ++visits[i]; });
      EXPECT_EQ(visits, std::vector<int>(count, 1)) << count << " with " << threads << " threads";
    }
  }
}

TEST_F(Parallel, RangesCoverEveryIndexOnce) {
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
}

// Iterations read what earlier loops wrote, whichever threads ran them.
TEST_F(Parallel, EachLoopSeesWhatEarlierLoopsWrote) {
  set_num_threads(4);
  std::vector<int64_t> values(64, 0), next(64, 0);
  for (int64_t round = 0; round < 20'000; ++round) {
    parallel_for(64, [&](int64_t i) { next[i] = values[(i + 1) % 64] + 1; });
    std::swap(values, next);
  }
  EXPECT_EQ(values, std::vector<int64_t>(64, 20'000));
}

TEST_F(Parallel, SleepingThreadsWakeUp) {
  set_num_threads(2);
  std::atomic<int> waiting = 0;
  const auto wait_for_each_other =
      [&](int64_t) {  // returns only when two threads are in it at the same time
        ++waiting;
        while (waiting < 2) std::this_thread::yield();
      };
  for (int round = 0; round < 3; ++round) {
    waiting = 0;
    parallel_for(2, wait_for_each_other);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

TEST_F(Parallel, NoThreadRunsTwoIterationsAtOnce) {
  set_num_threads(4);
  std::vector<std::atomic<int>> inside(4);
  std::atomic<bool> shared = false;
  parallel_for(2000, [&](int64_t, int thread) {
    ASSERT_TRUE(thread >= 0 && thread < 4);
    if (++inside[static_cast<size_t>(thread)] > 1) shared = true;
    --inside[static_cast<size_t>(thread)];
  });
  EXPECT_FALSE(shared);
}

TEST_F(Parallel, InnerLoopsRunOnTheirCallersThread) {
  set_num_threads(3);
  std::atomic<int> pairs = 0;
  parallel_for(30, [&](int64_t) {
    parallel_for(20, [&](int64_t, int thread) {
      EXPECT_EQ(thread, 0);
      ++pairs;
    });
  });
  EXPECT_EQ(pairs, 600);
}

// Three of the four callers find the team busy and run their loops alone. The loops inside those
// loops may find the team free again, so the test does not check which thread runs them.
TEST_F(Parallel, ConcurrentLoopsVisitEveryIndexOnce) {
  set_num_threads(3);
  const auto count_pairs = [] {
    std::atomic<int64_t> pairs = 0;
    parallel_for(30, [&](int64_t) {
      parallel_for(20, [&](int64_t, int thread) {
        EXPECT_TRUE(thread >= 0 && thread < 3);
        ++pairs;
      });
    });
    return pairs.load();
  };
  std::vector<int64_t> found(4, 0);
  std::vector<std::thread> callers;
  for (int64_t& pairs : found) callers.emplace_back([&] { pairs = count_pairs(); });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(found, std::vector<int64_t>(4, 600));
}

TEST_F(Parallel, ExceptionsOfIterationsReachTheCaller) {
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    const auto fails_at = [](int64_t bad) {
      parallel_for(100, [&](int64_t i) {
        if (i == bad) throw std::bad_alloc();
      });
    };
    for (const int64_t bad : {0, 57, 99}) EXPECT_THROW(fails_at(bad), std::bad_alloc);
    std::atomic<int> done = 0;  // the team continues to work
    parallel_for(100, [&](int64_t) { ++done; });
    EXPECT_EQ(done, 100);
  }
}

TEST_F(Parallel, StoppableLoopsThrowOnceStopIsSet) {
  set_num_threads(2);
  std::atomic<bool> stop = false;
  std::atomic<int> done = 0;
  const auto loop = [&] { parallel_for(10, [&](int64_t) { ++done; }); };
  {
    const StoppableLoops stoppable(stop);
    loop();
    stop = true;
    EXPECT_THROW(loop(), LoopsStopped);
    std::thread(loop).join();  // loops of another thread do not stop
    {
      const UnstoppableLoops whole;
      loop();
    }
    EXPECT_THROW(loop(), LoopsStopped);
  }
  {
    const UnstoppableLoops of_nothing;
    loop();
  }
  loop();
  EXPECT_EQ(done, 50);
}

TEST(Threads, AllTasksEndBeforeAnErrorIsThrown) {
  std::atomic<int> done = 0;
  const auto tasks = [&] {
    run_on_threads(4, [&](int64_t i) {
      ++done;
      if (i == 2) throw std::bad_alloc();
    });
  };
  EXPECT_THROW(tasks(), std::bad_alloc);
  EXPECT_EQ(done, 4);
}

}  // namespace
}  // namespace neuronmm
