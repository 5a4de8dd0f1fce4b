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
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

// Adding 1.5 · 2^23 rounds to an integer n, which is then in the lowest bits of the sum.
inline constexpr float kRounding = 0x1.8p23f;

// Returns 2^(n + r) for -1/2 <= r <= 1/2, where `shifted` is n + kRounding. n goes into the
// exponent, and a polynomial approximates 2^r. Its relative error is 2.7e-6 for degree 4 and 2e-9,
// so that rounding is the limit, for degree 6. The coefficients come from the Remez algorithm.
template <int kDegree>
HWY_INLINE Vector power_of_parts(Vector shifted, Vector r) {
  static_assert(kDegree == 4 || kDegree == 6);
  const Floats d;
  const Words words;
  constexpr float kOfDegree4[] = {0.9999992847442627f, 0.6931217908859253f, 0.240247443318367f,
                                  0.05591785907745361f, 0.009570102207362652f};
  constexpr float kOfDegree6[] = {1.0f,
                                  0.6931471824645996f,
                                  0.24022646248340607f,
                                  0.05550328642129898f,
                                  0.009618489071726799f,
                                  0.0013399930903688073f,
                                  0.0001534581242594868f};
  const float* const c = kDegree == 4 ? kOfDegree4 : kOfDegree6;
  Vector p = hn::Set(d, c[kDegree]);
  for (int i = kDegree - 1; i >= 0; --i) p = hn::MulAdd(p, r, hn::Set(d, c[i]));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(words, shifted));
  return hn::BitCast(d, hn::Add(hn::BitCast(words, p), exponent));
}

#if HWY_TARGET == HWY_AVX3
// Returns 2^x with the relative error of degree 4, from the powers of the fraction of x in [0, 1).
// Two instructions split x and put the powers together (Intel Software Developer's Manual, volume
// 2C, VREDUCEPS and VSCALEFPS). -infinity gives 0, and NaN stays NaN.
HWY_INLINE Vector scaled_power_of_two(Vector x) {
  constexpr float kOfFraction[] = {1.0000026226043701f, 0.6930038332939148f, 0.2414427548646927f,
                                   0.052011456340551376f, 0.01353416871279478f};
  constexpr int kDown = 9;  // to a whole number, downwards, without an exception
  const Floats d;
  const Vector r{_mm512_reduce_ps(x.raw, kDown)};
  Vector p = hn::Set(d, kOfFraction[4]);
  for (int i = 3; i >= 0; --i) p = hn::MulAdd(p, r, hn::Set(d, kOfFraction[i]));
  return Vector{_mm512_scalef_ps(p.raw, x.raw)};
}
#endif

// Returns 2^x for x <= 126. Powers below 2^-125 may have any value from 0 to 2^-125. NaN stays NaN;
// for degree 4 it must have zeros in its 9 lowest bits, as NaN of bf16 products does.
template <int kDegree>
HWY_INLINE Vector power_of_two(Vector x) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (kDegree == 4) return scaled_power_of_two(x);
#endif
  const Floats d;
  const Vector rounding = hn::Set(d, kRounding);
  // Max returns its second argument if one of them is NaN.
  const Vector limited = hn::Max(hn::Set(d, -125.0f), x);
  const Vector shifted = hn::Add(limited, rounding);
  const Vector power =
      power_of_parts<kDegree>(shifted, hn::Sub(limited, hn::Sub(shifted, rounding)));
  if constexpr (kDegree == 4) return power;
  return hn::IfThenElse(hn::IsNaN(x), x, power);
}

// Returns e^x with an error of about 1 ulp, for x up to 87. NaN stays NaN. log(2) has two parts, of
// which n times the first is exact (Cody and Waite, Software Manual for the Elementary Functions,
// 1980).
HWY_INLINE Vector exponential(Vector x) {
  const Floats d;
  constexpr float kLog2High = 0.693359375f, kLog2Low = -2.12194440e-4f;
  const Vector log2_e = hn::Set(d, 1.44269504f), rounding = hn::Set(d, kRounding);
  const Vector limited = hn::Max(hn::Set(d, -86.0f), x);
  const Vector shifted = hn::MulAdd(limited, log2_e, rounding);
  const Vector n = hn::Sub(shifted, rounding);
  const Vector above = hn::NegMulAdd(n, hn::Set(d, kLog2High), limited);
  const Vector r = hn::Mul(hn::NegMulAdd(n, hn::Set(d, kLog2Low), above), log2_e);
  return hn::IfThenElse(hn::IsNaN(x), x, power_of_parts<6>(shifted, r));
}

// Returns 1 / x with an error of at most 2 ulp, for 1 <= x < infinity.
HWY_INLINE Vector reciprocal(Vector x) {
  const Floats d;
#if HWY_TARGET == HWY_AVX3
  // Documented: VRCP14PS has a relative error below 2^-14 (Intel Software Developer's Manual,
  // volume 2C). A Newton step squares it. A division would take longer than the rest of silu.
  const Vector r = hn::ApproximateReciprocal(x);
  return hn::Mul(r, hn::NegMulAdd(x, r, hn::Set(d, 2.0f)));
#else
  return hn::Div(hn::Set(d, 1.0f), x);
#endif
}

// Returns z / (1 + e^-z), with the exponent limited to values for which e^-z is finite.
HWY_INLINE Vector silu(Vector z) {
  const Floats d;
  const Vector exponent = hn::Min(hn::Neg(z), hn::Set(d, 87.0f));
  return hn::Mul(z, reciprocal(hn::Add(hn::Set(d, 1.0f), exponential(exponent))));
}

// Returns z / 2 (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3))), as z / (1 + e^-t) with t = 2 sqrt(2 /
// pi) (z + 0.044715 z^3). The limits of t keep e^-t finite.
HWY_INLINE Vector gelu_tanh(Vector z) {
  const Floats d;
  constexpr float kSlope = 1.5957691216f, kCubic = 0.07135481283f;  // 2 sqrt(2 / pi), * 0.044715
  const Vector square = hn::Mul(z, z);
  const Vector t = hn::Mul(z, hn::MulAdd(square, hn::Set(d, kCubic), hn::Set(d, kSlope)));
  const Vector exponent = hn::Min(hn::Neg(t), hn::Set(d, 87.0f));
  return hn::Mul(z, reciprocal(hn::Add(hn::Set(d, 1.0f), exponential(exponent))));
}

// Returns tanh(x) with an error of a few ulp, as a rational function. NaN stays NaN. Larger |x|
// give the value at the limit, which is 4 ulp below 1. The coefficients and the limit are those of
// Eigen (GenericPacketMathFunctions.h, ptanh_float).
HWY_INLINE Vector hyperbolic_tangent(Vector x) {
  const Floats d;
  constexpr float kOdd[] = {4.89352455891786e-03f, 6.37261928875436e-04f,  1.48572235717979e-05f,
                            5.12229709037114e-08f, -8.60467152213735e-11f, 2.00018790482477e-13f,
                            -2.76076847742355e-16f};
  constexpr float kEven[] = {4.89352518554385e-03f, 2.26843463243900e-03f, 1.18534705686654e-04f,
                             1.19825839466702e-06f};
  const Vector limited =
      hn::Max(hn::Set(d, -7.90531110763549805f), hn::Min(hn::Set(d, 7.90531110763549805f), x));
  const Vector square = hn::Mul(limited, limited);
  Vector odd = hn::Set(d, kOdd[6]), even = hn::Set(d, kEven[3]);
  for (int i = 5; i >= 0; --i) odd = hn::MulAdd(odd, square, hn::Set(d, kOdd[i]));
  for (int i = 2; i >= 0; --i) even = hn::MulAdd(even, square, hn::Set(d, kEven[i]));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Div(hn::Mul(limited, odd), even));
}

inline void gelu_multiply(const float* gate, float* up, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t lanes = count - i;
    const Vector product =
        hn::Mul(gelu_tanh(load_columns(gate + i, lanes)), load_columns(up + i, lanes));
    store_columns(product, up + i, lanes);
  }
}

inline void scale(float factor, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t lanes = count - i;
    store_columns(hn::Mul(load_columns(y + i, lanes), hn::Set(Floats(), factor)), y + i, lanes);
  }
}

// Computes y = cap * tanh(y / cap).
inline void soft_cap(float cap, float* y, int64_t count) {
  const Vector inverse = hn::Set(Floats(), 1.0f / cap), limit = hn::Set(Floats(), cap);
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t lanes = count - i;
    const Vector value = hn::Mul(load_columns(y + i, lanes), inverse);
    store_columns(hn::Mul(hyperbolic_tangent(value), limit), y + i, lanes);
  }
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
