#include "ops/divergence.h"

// The order matters: foreach_target.h compiles this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/divergence.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "hwy/contrib/math/math-inl.h"
// clang-format on

#include <cmath>

#include "ops/log_sum.h"

#ifndef NEURONMM_OPS_DIVERGENCE_SUMS
#define NEURONMM_OPS_DIVERGENCE_SUMS
namespace neuronmm::ops {
// Sums over a pair of rows of logits. Exponentials are relative to each row's largest logit, so
// that none overflows.
struct DivergenceSums {
  double p = 0.0, q = 0.0;  // Σ exp
  double weighted = 0.0;    // Σ exp(p) (p - q)
};
}  // namespace neuronmm::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace neuronmm::ops {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Returns the sums of one pair of rows. A logit that is not finite makes `weighted` NaN or
// infinite.
DivergenceSums divergence_sums(std::span<const float> p, std::span<const float> q, float largest_p,
                               float largest_q) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const auto smallest = hn::Set(d, -1000.0);  // its exponential is 0 in fp64
  const auto load = [&](const float* values) {
    return hn::PromoteTo(d, hn::LoadU(narrow, values));
  };
  const auto exp = [&](auto logit, float largest) {
    return hn::Exp(d, hn::Max(hn::Sub(logit, hn::Set(d, largest)), smallest));
  };
  auto sum_p = hn::Zero(d), sum_q = hn::Zero(d), weighted = hn::Zero(d);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= p.size(); i += hn::Lanes(d)) {
    const auto a = load(&p[i]), b = load(&q[i]);
    const auto probability = exp(a, largest_p);
    sum_p = hn::Add(sum_p, probability);
    sum_q = hn::Add(sum_q, exp(b, largest_q));
    weighted = hn::MulAdd(probability, hn::Sub(a, b), weighted);
  }
  DivergenceSums sums = {hn::GetLane(hn::SumOfLanes(d, sum_p)),
                         hn::GetLane(hn::SumOfLanes(d, sum_q)),
                         hn::GetLane(hn::SumOfLanes(d, weighted))};
  for (; i < p.size(); ++i) {
    const double probability = std::exp(double{p[i]} - largest_p);
    sums.p += probability;
    sums.q += std::exp(double{q[i]} - largest_q);
    sums.weighted += probability * (double{p[i]} - q[i]);
  }
  return sums;
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuronmm::ops {
namespace {

HWY_EXPORT(divergence_sums);

}  // namespace

double kl_divergence(std::span<const float> p, std::span<const float> q) {
  const float largest_p = largest_of(p), largest_q = largest_of(q);
  const DivergenceSums sums = HWY_DYNAMIC_DISPATCH(divergence_sums)(p, q, largest_p, largest_q);
  return sums.weighted / sums.p + (largest_q + std::log(sums.q)) - (largest_p + std::log(sums.p));
}

}  // namespace neuronmm::ops
#endif  // HWY_ONCE
