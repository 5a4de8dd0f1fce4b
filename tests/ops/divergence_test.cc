// Tests of the KL divergence of logits, for every instruction set of this machine.

#include "ops/divergence.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "instruction_set.h"

namespace neuronmm::ops {
namespace {

// Runs a test once for every instruction set of this machine.
class KlDivergence : public testing::TestWithParam<int64_t> {
 protected:
  std::vector<float> random_logits(size_t count, float scale) {
    std::normal_distribution<float> normal(0.0f, scale);
    std::vector<float> logits(count);
    for (float& logit : logits) logit = normal(random_);
    return logits;
  }

 private:
  InstructionSet set_ = InstructionSet(GetParam());
  std::mt19937_64 random_{11};
};
INSTANTIATE_TEST_SUITE_P(Target, KlDivergence,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) { return hwy::TargetName(target.param); });

// The divergence by its definition, in extended precision, and the sum of the magnitudes of all
// terms, to which rounding errors are proportional.
struct Expected {
  long double divergence = 0, size = 0;
};
Expected expected(const std::vector<float>& p, const std::vector<float>& q) {
  long double sum_p = 0, sum_q = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    sum_p += std::exp(static_cast<long double>(p[i]));
    sum_q += std::exp(static_cast<long double>(q[i]));
  }
  Expected result = {0, std::fabs(std::log(sum_p)) + std::fabs(std::log(sum_q))};
  for (size_t i = 0; i < p.size(); ++i) {
    const long double share = std::exp(static_cast<long double>(p[i])) / sum_p;
    const long double more = static_cast<long double>(p[i]) - q[i];
    result.divergence += share * (more + std::log(sum_q) - std::log(sum_p));
    result.size += share * std::fabs(more);
  }
  return result;
}

// The tolerance assumes that an exponential is off by a unit in the last place. Every term and
// every partial sum adds one more rounding.
TEST_P(KlDivergence, AgreesWithTheDefinition) {
  const auto check = [&](const std::vector<float>& p, const std::vector<float>& q) {
    const Expected wanted = expected(p, q);
    const double rounding = std::ldexp(static_cast<double>(p.size()) + 8.0, -52);
    EXPECT_NEAR(kl_divergence(p, q), static_cast<double>(wanted.divergence),
                rounding * static_cast<double>(wanted.size + 1))
        << p.size() << " logits";
  };
  for (size_t count = 1; count <= 70; ++count) {
    for (const float scale : {0.1f, 3.0f, 60.0f}) {
      const auto p = random_logits(count, scale);
      auto q = random_logits(count, 0.1f * scale);
      for (size_t i = 0; i < count; ++i) q[i] += p[i];
      check(p, q);
      check(p, random_logits(count, scale));
      EXPECT_EQ(kl_divergence(p, p), 0.0);  // every term is 0, and the log sums cancel
    }
  }
  check(random_logits(49152, 3.0f), random_logits(49152, 3.0f));
}

// The largest logit is so large that fp64 cannot hold the probability of any other token.
TEST_P(KlDivergence, IsExactWhereOneTokenHasAllTheProbability) {
  std::vector<float> p(40, -2000.0f), q(40, -3.0e4f);
  p[3] = q[3] = 5000.0f;
  EXPECT_EQ(kl_divergence(p, q), 0.0);
  q[3] = q[17] = 100.0f;
  // The result is a difference of numbers of about 5000, each rounded once or twice.
  EXPECT_NEAR(kl_divergence(p, q), std::log(2.0), 8 * std::ldexp(5000.0, -53));
}

TEST_P(KlDivergence, IsNotFiniteWhereALogitIsNot) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (const size_t at : {size_t{0}, size_t{19}, size_t{36}}) {
      const auto good = random_logits(37, 1.0f);
      auto other = good;
      other[at] = bad;
      EXPECT_FALSE(std::isfinite(kl_divergence(other, good))) << bad << " at " << at;
      EXPECT_FALSE(std::isfinite(kl_divergence(good, other))) << bad << " at " << at;
    }
  }
}

}  // namespace
}  // namespace neuronmm::ops
