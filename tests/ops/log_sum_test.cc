// Tests of the log sum of a row of logits, for every instruction set of this machine.

#include "ops/log_sum.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "instruction_set.h"

namespace neuronmm::ops {
namespace {

// Runs a test once for every instruction set of this machine.
class LogSums : public testing::TestWithParam<int64_t> {
  InstructionSet set_ = InstructionSet(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Target, LogSums, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) { return hwy::TargetName(target.param); });

std::vector<float> random_logits(size_t count, float scale, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

double log_probability(const std::vector<float>& logits, size_t target) {
  return log_sum(logits).log_probability(logits[target]);
}

// Returns the log-probability of `target` by its definition, in extended precision.
double expected(const std::vector<float>& logits, size_t target) {
  const long double largest = *std::max_element(logits.begin(), logits.end());
  long double sum = 0.0L;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return static_cast<double>(logits[target] - largest - std::log(sum));
}

// The tolerance counts two roundings for every exponential. Rounding exp() is off by 2^-23.
// Rounding a difference d changes its exponential by at most d · exp(-d) · 2^-24, and d · exp(-d)
// is at most 1/e.
TEST_P(LogSums, AgreesWithTheDefinition) {
  for (size_t count = 1; count <= 70; ++count) {
    for (const float scale : {0.1f, 3.0f, 60.0f}) {
      const auto logits = random_logits(count, scale, count);
      const double tolerance = std::ldexp(1.0, -22) * (1.0 + static_cast<double>(count));
      for (const size_t target : {size_t{0}, count / 2, count - 1}) {
        EXPECT_NEAR(log_probability(logits, target), expected(logits, target), tolerance)
            << "count and seed " << count << ", scale " << scale;
      }
    }
  }
  const auto large = random_logits(128256, 3.0f, 1);
  EXPECT_NEAR(log_probability(large, 5), expected(large, 5), std::ldexp(1.0, -22));
}

TEST_P(LogSums, MinusInfinityHasProbabilityZeroAndNaNOrInfinitySpoilsTheRow) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (size_t at = 0; at < 67; ++at) {
    auto logits = random_logits(67, 1.0f, at);
    logits[at] = -kInfinity;
    EXPECT_EQ(log_probability(logits, at), -kInfinity);
    EXPECT_NEAR(log_probability(logits, at == 0 ? 1 : 0), expected(logits, at == 0 ? 1 : 0), 1e-5);
    for (const float broken : {std::nanf(""), kInfinity}) {
      logits[at] = broken;
      EXPECT_TRUE(std::isnan(log_probability(logits, at))) << at;
      EXPECT_FALSE(std::isfinite(log_probability(logits, at == 0 ? 1 : 0))) << at;
    }
  }
}

// The blocks of a row may be computed in several processes.
TEST_P(LogSums, SumsOfBlocksGiveTheSameBitsAsTheWholeRow) {
  for (const size_t count : {1, 31, 211, 4097, 49152, 128256}) {
    const auto logits = random_logits(count, 5.0f, count);
    const auto block = static_cast<size_t>(log_sum_block(static_cast<int64_t>(count)));
    EXPECT_LE((count + block - 1) / block, 128u);
    EXPECT_EQ(block % 32, 0u);
    const LogSum whole = log_sum(logits);
    for (const size_t blocks : {1, 2, 5, 43}) {
      std::vector<ExponentialSum> sums;
      for (size_t first = 0; first < count; first += blocks * block) {
        const auto part = std::span(logits).subspan(first, std::min(blocks * block, count - first));
        for (const auto& sum : exponential_sums(part, static_cast<int64_t>(block))) {
          sums.push_back(sum);
        }
      }
      EXPECT_EQ(log_sum(sums).largest, whole.largest) << count;
      EXPECT_EQ(log_sum(sums).log, whole.log) << count;
    }
  }
}

TEST_P(LogSums, BlocksOfImpossibleTokensAddNothing) {
  auto logits = random_logits(300, 1.0f, 5);
  std::fill(logits.begin() + 64, logits.begin() + 160, -std::numeric_limits<float>::infinity());
  EXPECT_NEAR(log_probability(logits, 3), expected(logits, 3), 1e-5);
  logits[100] = std::nanf("");
  EXPECT_TRUE(std::isnan(log_probability(logits, 3)));
}

}  // namespace
}  // namespace neuronmm::ops
