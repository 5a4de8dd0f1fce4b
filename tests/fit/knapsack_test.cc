// Compares the knapsack with a search over all combinations.

#include "fit/knapsack.h"

#include <cmath>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace neuronmm::fit {
namespace {

constexpr uint64_t kSeed = 20261123;

Quantities sum_of(const Items& items, const std::vector<size_t>& options) {
  Quantities sum = {};
  for (size_t i = 0; i < items.size(); ++i) {
    for (size_t k = 0; k < kQuantities; ++k) sum[k] += items[i][options[i]][k];
  }
  return sum;
}

bool fits(const Quantities& sum, const Goal& goal) {
  for (size_t k = 0; k < kQuantities; ++k) {
    if (k != goal.minimized && sum[k] > goal.limits[k]) return false;
  }
  return true;
}

// Returns the least sum within the limits, or infinity if no combination is within them.
double least_of_all(const Items& items, const Goal& goal) {
  double least = kUnlimited;
  std::vector<size_t> options(items.size(), 0);
  for (;;) {
    const Quantities sum = sum_of(items, options);
    if (fits(sum, goal)) least = std::min(least, sum[goal.minimized]);
    size_t item = 0;
    while (item < items.size() && ++options[item] == items[item].size()) options[item++] = 0;
    if (item == items.size()) return least;
  }
}

// Returns options that lose less the more they cost, like formats and sizes.
Items random_items(size_t count, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  Items items(count);
  for (auto& options : items) {
    const double scale = std::exp(4.0 * uniform(random));
    for (int i = 0; i < 5; ++i) {
      const double cost = uniform(random);
      options.push_back({scale * std::pow(1.0 - cost, 3.0) * (0.5 + uniform(random)), 1e6 * cost,
                         1e-3 * cost * (0.8 + 0.4 * uniform(random)),
                         1e-1 * cost * (0.5 + uniform(random))});
    }
  }
  return items;
}

TEST(Knapsack, BoundAndResultEncloseTheOptimum) {
  std::mt19937_64 random(kSeed);
  double gaps = 0.0;
  int feasible = 0;
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(fmt::format("seed {}, trial {}", kSeed, trial));
    const Items items = random_items(6, random);
    Goal goal;
    std::uniform_real_distribution<double> tight(0.25, 0.9);
    goal.limits[kBytes] = 6e6 * tight(random);
    if (trial % 3 > 0) goal.limits[kDecode] = 6e-3 * tight(random);
    if (trial % 3 > 1) goal.limits[kPrefill] = 0.6 * tight(random);
    const double optimum = least_of_all(items, goal);
    const auto found = select(items, goal);
    if (!found) continue;
    ++feasible;
    const Quantities sum = sum_of(items, found->options);
    EXPECT_TRUE(fits(sum, goal));
    for (size_t k = 0; k < kQuantities; ++k)
      EXPECT_NEAR(sum[k], found->sums[k], 1e-9 * (1 + sum[k]));
    EXPECT_GE(sum[kLoss], optimum * (1 - 1e-12));
    EXPECT_LE(found->bound, optimum * (1 + 1e-9));
    gaps += sum[kLoss] / optimum - 1.0;
  }
  // Six items of five options seldom meet a limit exactly. If the mean loss is near the optimum,
  // what is left of the limits is spent well.
  ASSERT_GT(feasible, 50);
  EXPECT_LT(gaps / feasible, 0.25);
}

// With many items the steps are small compared with the sums, so that the bound is close.
TEST(Knapsack, WithManyItemsTheBoundIsClose) {
  std::mt19937_64 random(kSeed + 1);
  const Items items = random_items(200, random);
  for (const double share : {0.3, 0.5, 0.7}) {
    Goal goal;
    goal.limits[kBytes] = 200e6 * share;
    const auto found = select(items, goal);
    ASSERT_TRUE(found);
    EXPECT_LE(found->sums[kBytes], goal.limits[kBytes]);
    EXPECT_GE(found->bound, 0.99 * found->sums[kLoss]) << share;
  }
}

TEST(Knapsack, MinimizesTheRequestedQuantity) {
  std::mt19937_64 random(kSeed + 2);
  for (int trial = 0; trial < 20; ++trial) {
    const Items items = random_items(5, random);
    Goal goal{.minimized = kBytes};
    goal.limits[kLoss] = 3.0 + trial;
    const double optimum = least_of_all(items, goal);
    const auto found = select(items, goal);
    ASSERT_EQ(found.has_value(), optimum < kUnlimited) << "seed " << kSeed + 2;
    if (!found) continue;
    EXPECT_LE(found->sums[kLoss], goal.limits[kLoss]);
    EXPECT_GE(found->sums[kBytes], optimum * (1 - 1e-12));
    EXPECT_LE(found->bound, optimum * (1 + 1e-9));
  }
}

TEST(Knapsack, FindsNothingIfNoSelectionIsWithinTheLimits) {
  const Items items = {{{0.0, 5.0, 1.0, 1.0}, {1.0, 3.0, 1.0, 1.0}}, {{0.0, 4.0, 1.0, 1.0}}};
  Goal goal;
  goal.limits[kBytes] = 6.9;
  EXPECT_FALSE(select(items, goal));
  goal.limits[kBytes] = 7.0;
  const auto found = select(items, goal);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->options, (std::vector<size_t>{1, 0}));
  EXPECT_EQ(smallest_sum(items, kBytes), 7.0);
}

TEST(Knapsack, WithoutLimitsTakesTheBest) {
  const Items items = {{{2.0, 1.0, 0, 0}, {1.0, 9.0, 0, 0}}, {{0.0, 9.0, 0, 0}, {5.0, 0.0, 0, 0}}};
  const auto found = select(items, Goal());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->options, (std::vector<size_t>{1, 0}));
  EXPECT_EQ(found->bound, 1.0);
}

}  // namespace
}  // namespace neuronmm::fit
