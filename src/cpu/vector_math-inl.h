// Element-wise kernels for one instruction set (see kernels.h). Highway includes this file once per
// target.

#if defined(NEURONMM_CPU_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_VECTOR_MATH_INL_H_
#undef NEURONMM_CPU_VECTOR_MATH_INL_H_
#else
#define NEURONMM_CPU_VECTOR_MATH_INL_H_
#endif

#include <cmath>

#include "cpu/matmul-inl.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

// Returns exp(x) with an error of 1 ulp (Highway's bound) for x <= kLargestExponent, which is just
// below log(FLT_MAX). Highway gives 0 below -104, and for NaN, too. Here NaN stays NaN, so that a
// broken model is noticed. Infinity and NaN never reach Highway's conversion to integers.
inline constexpr float kLargestExponent = 88.0f;
inline constexpr float kBelowSmallestExponent = -105.0f;
HWY_INLINE Vector exponential(Vector x) {
  const Floats d;
  const auto is_nan = hn::IsNaN(x);
  const Vector finite = hn::Max(hn::IfThenZeroElse(is_nan, x), hn::Set(d, kBelowSmallestExponent));
  return hn::IfThenElse(is_nan, x, hn::Exp(d, finite));
}

// Returns z / (1 + e^-z), with the exponent limited to values for which e^-z is finite.
HWY_INLINE Vector silu(Vector z) {
  const Floats d;
  const Vector exponent = hn::Min(hn::Neg(z), hn::Set(d, kLargestExponent));
  return hn::Div(z, hn::Add(hn::Set(d, 1.0f), exponential(exponent)));
}

inline void silu_multiply(const float* gate, float* up, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t lanes = count - i;
    const Vector product =
        hn::Mul(silu(load_columns(gate + i, lanes)), load_columns(up + i, lanes));
    store_columns(product, up + i, lanes);
  }
}

inline void add(const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t lanes = count - i;
    store_columns(hn::Add(load_columns(x + i, lanes), load_columns(y + i, lanes)), y + i, lanes);
  }
}

// Four sums keep the latency of the multiply-add from being the limit, and rounding errors grow
// more slowly.
inline float sum_of_squares(const float* x, int64_t count) {
  const Floats d;
  Vector sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  for (int64_t i = 0; i < count; i += 4 * kLanes) {
    for (int j = 0; j < 4; ++j) {
      const int64_t first = i + j * kLanes;
      const Vector v = load_columns(x + first, count - first);
      sums[j] = hn::MulAdd(v, v, sums[j]);
    }
  }
  return hn::GetLane(
      hn::SumOfLanes(d, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
}

// Computes y = x / sqrt(mean(x^2) + eps) * weight.
inline void rms_norm(const float* x, const float* weight, float eps, float* y, int64_t count) {
  const Floats d;
  const float mean = sum_of_squares(x, count) / static_cast<float>(count);
  const Vector scale = hn::Set(d, 1.0f / std::sqrt(mean + eps));
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t lanes = count - i;
    const Vector normed = hn::Mul(load_columns(x + i, lanes), scale);
    store_columns(hn::Mul(normed, load_columns(weight + i, lanes)), y + i, lanes);
  }
}

// Rotates each pair by its angle: (x, y) becomes (x cos - y sin, y cos + x sin).
inline void rotate(const float* cos, const float* sin, float* low, float* high, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t lanes = count - i;
    const Vector c = load_columns(cos + i, lanes), s = load_columns(sin + i, lanes);
    const Vector x = load_columns(low + i, lanes), y = load_columns(high + i, lanes);
    store_columns(hn::NegMulAdd(y, s, hn::Mul(x, c)), low + i, lanes);
    store_columns(hn::MulAdd(x, s, hn::Mul(y, c)), high + i, lanes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_VECTOR_MATH_INL_H_
