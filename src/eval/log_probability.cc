#include "eval/log_probability.h"

// The order matters: foreach_target.h compiles this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eval/log_probability.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "hwy/contrib/math/math-inl.h"
// clang-format on

#include <algorithm>
#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace neuronmm::eval {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A NaN among them may hide others: the sum below finds it.
float largest_of(std::span<const float> values) {
  const hn::ScalableTag<float> d;
  auto largest = hn::Set(d, -std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + hn::Lanes(d) <= values.size(); i += hn::Lanes(d)) {
    largest = hn::Max(largest, hn::LoadU(d, &values[i]));
  }
  float result = hn::GetLane(hn::MaxOfLanes(d, largest));
  for (; i < values.size(); ++i) result = std::max(result, values[i]);
  return result;
}

// The sum of exp(value - largest).
double sum_of_exponentials(std::span<const float> values, float largest) {
  const hn::ScalableTag<double> wide;
  const hn::Rebind<float, decltype(wide)> d;
  const auto below_smallest = hn::Set(d, -105.0f);  // Highway's exp gives 0 below -104
  auto sums = hn::Zero(wide);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= values.size(); i += hn::Lanes(d)) {
    const auto x = hn::Sub(hn::LoadU(d, &values[i]), hn::Set(d, largest));
    const auto is_nan = hn::IsNaN(x);  // NaN and infinity are kept from exp, NaN stays
    const auto finite = hn::Max(hn::IfThenZeroElse(is_nan, x), below_smallest);
    const auto exponential = hn::IfThenElse(is_nan, x, hn::Exp(d, finite));
    sums = hn::Add(sums, hn::PromoteTo(wide, exponential));
  }
  double sum = hn::GetLane(hn::SumOfLanes(wide, sums));
  for (; i < values.size(); ++i) sum += std::exp(values[i] - largest);
  return sum;
}

double log_probability(std::span<const float> logits, text::TokenId target) {
  const float largest = largest_of(logits);
  const double log_sum = std::log(sum_of_exponentials(logits, largest));
  return static_cast<double>(logits[target]) - largest - log_sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::eval
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuronmm::eval {

HWY_EXPORT(log_probability);

double log_probability(std::span<const float> logits, text::TokenId target) {
  return HWY_DYNAMIC_DISPATCH(log_probability)(logits, target);
}

}  // namespace neuronmm::eval
#endif  // HWY_ONCE
