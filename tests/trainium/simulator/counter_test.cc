// Checks counters against sums over their intervals.

#include "trainium/simulator/counter.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace neuronmm::simulator {
namespace {

struct Interval {
  double begin = 0, end = 0, amount = 0;
};

std::vector<Interval> random_intervals(std::mt19937_64& random, size_t count) {
  std::vector<Interval> all;
  for (size_t i = 0; i < count; ++i) {
    // Whole numbers make many begins and ends equal.
    const double begin = static_cast<double>(random() % 500);
    all.push_back({begin, begin + 1 + static_cast<double>(random() % 40),
                   static_cast<double>(1 + random() % 9)});
  }
  return all;
}

double value_at(const std::vector<Interval>& all, double ns) {
  double value = 0;
  for (const Interval& each : all) {
    if (each.begin <= ns && ns < each.end) value += each.amount;
  }
  return value;
}

double value_at(const std::vector<Counter::Step>& steps, double ns) {
  double value = 0;
  for (const Counter::Step& step : steps) {
    if (step.ns <= ns) value = step.value;
  }
  return value;
}

Counter counter_of(const std::vector<Interval>& all) {
  Counter counter("SBUF", "bytes", 100);
  for (const Interval& each : all) counter.add(each.begin, each.end, each.amount);
  return counter;
}

TEST(Counter, ItsStepsAreTheSumOfTheIntervals) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const std::vector<Interval> all = random_intervals(random, 400);
  const Counter counter = counter_of(all);
  const std::vector<Counter::Step> steps = counter.steps();
  EXPECT_TRUE(counter.exact());
  EXPECT_EQ(steps.front().ns, 0);
  EXPECT_EQ(steps.back().value, 0);
  for (size_t i = 1; i < steps.size(); ++i) {
    EXPECT_GT(steps[i].ns, steps[i - 1].ns);
    EXPECT_NE(steps[i].value, steps[i - 1].value);
  }
  double most = 0;
  for (double ns = 0; ns < 560; ns += 0.5) {
    EXPECT_EQ(value_at(steps, ns), value_at(all, ns)) << ns;
    most = std::max(most, value_at(all, ns));
  }
  EXPECT_EQ(counter.most(), most);
  const std::vector<double> largest = largest_values(steps, 7, 80);
  for (size_t i = 0; i < largest.size(); ++i) {
    double expected = 0;
    for (double ns = 0; ns < 7; ns += 0.5) {
      expected = std::max(expected, value_at(all, 7 * static_cast<double>(i) + ns));
    }
    EXPECT_EQ(largest[i], expected) << i;
  }
}

TEST(Counter, WhatEndsMakesRoomForWhatBegins) {
  const Counter counter = counter_of({{5, 9, 3}, {1, 5, 3}, {9, 9, 7}, {-1, 4, 7}});
  EXPECT_EQ(counter.most(), 3);
  ASSERT_EQ(counter.steps().size(), 3u);
  EXPECT_EQ(counter.steps()[1].ns, 1);
  EXPECT_EQ(counter.steps()[2].ns, 9);
}

TEST(Counter, WithoutIntervalsItIsZero) {
  const Counter counter("SBUF", "bytes", 100);
  EXPECT_EQ(counter.most(), 0);
  ASSERT_EQ(counter.steps().size(), 1u);
  EXPECT_EQ(counter.steps()[0].value, 0);
}

// A counter with too many intervals keeps their total and takes no more memory.
TEST(Counter, BeyondItsLimitItKnowsTheMeanOfEachStretchOfTime) {
  constexpr size_t kIntervals = Counter::kMostIntervals + 1000;
  Counter counter("DMA", "transfers", 4);
  for (size_t i = 0; i < kIntervals; ++i) {
    const auto begin = static_cast<double>(i);
    counter.add(begin, begin + 2, 1);
  }
  EXPECT_FALSE(counter.exact());
  const std::vector<Counter::Step> steps = counter.steps();
  EXPECT_LE(steps.size(), Utilization::kMostBins + 2);
  double total = 0;
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    total += steps[i].value * (steps[i + 1].ns - steps[i].ns);
  }
  // The last stretch may be longer than the time that it covers.
  EXPECT_NEAR(total, 2.0 * kIntervals, 2.0 * kIntervals / 500);
  EXPECT_NEAR(value_at(steps, kIntervals / 2.0), 2, 1e-9);
  EXPECT_NEAR(counter.most(), 2, 1e-9);
}

}  // namespace
}  // namespace neuronmm::simulator
