// This test checks means and their 95 % intervals against tables, definitions and simulated texts.

#include "eval/interval.h"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace neuronmm::eval {
namespace {

// The expected values are quantiles of Student's t as tables print them.
TEST(Interval, FactorsMatchTablesOfStudentsT) {
  const std::vector<std::pair<int64_t, double>> table = {
      {2, 12.706}, {3, 4.303},  {4, 3.182},  {5, 2.776},  {6, 2.571},   {7, 2.447},
      {9, 2.306},  {11, 2.228}, {24, 2.069}, {31, 2.042}, {121, 1.980}, {1'000'000, 1.960}};
  for (const auto& [samples, factor] : table) {
    EXPECT_NEAR(interval_factor(samples), factor, 2e-3) << samples;
  }
  EXPECT_TRUE(std::isnan(interval_factor(1)));
}

TEST(Interval, EqualWindowsGiveTheErrorOfTheirMeans) {
  const std::vector<WindowSum> windows = {{3.0, 10}, {5.0, 10}, {10.0, 10}};
  const Estimate mean = mean_over_windows(windows);
  EXPECT_DOUBLE_EQ(mean.value, 0.6);
  EXPECT_EQ(mean.samples, 3);
  // The means are .3, .5 and 1, so the deviations are -.3, -.1 and .4, and the variance is .26 / 2.
  EXPECT_NEAR(mean.standard_error, std::sqrt(0.13 / 3.0), 1e-15);
  EXPECT_NEAR(mean.half_interval(), 4.3027 * mean.standard_error, 1e-12);
  EXPECT_NEAR(mean.low() + mean.high(), 1.2, 1e-12);
  EXPECT_TRUE(std::isnan(mean_over_windows(std::span(windows).first(1)).standard_error));
}

// If windows are independent and their tokens are correlated, 19 of 20 intervals contain the true
// mean. They would not if tokens were the samples.
TEST(Interval, ContainsTheTrueMeanInNineteenOfTwentyTexts) {
  constexpr int kTexts = 4000, kWindows = 8, kTokens = 50;
  constexpr uint64_t kSeed = 7;
  std::mt19937_64 random(kSeed);
  std::normal_distribution<double> normal;
  int held = 0;
  for (int text = 0; text < kTexts; ++text) {
    std::vector<WindowSum> windows;
    for (int window = 0; window < kWindows; ++window) {
      const double shared = normal(random);  // common to all tokens of the window
      WindowSum& sum = windows.emplace_back(WindowSum{0.0, kTokens});
      for (int token = 0; token < kTokens; ++token) sum.sum += 3.0 + shared + normal(random);
    }
    const Estimate mean = mean_over_windows(windows);
    if (mean.low() <= 3.0 && 3.0 <= mean.high()) ++held;
  }
  // Four standard deviations of the count are allowed.
  EXPECT_NEAR(held, 0.95 * kTexts, 4.0 * std::sqrt(0.95 * 0.05 * kTexts)) << "seed " << kSeed;
}

}  // namespace
}  // namespace neuronmm::eval
