#pragma once
// Helpers of the fused operations of this folder: conversions and an exponential for loops over
// contiguous numbers that the compiler vectorizes. The .cc files that include this header are the
// target `torch_loops` of CMakeLists.txt, which has compiler options of its own. Loops that sum up
// are marked `omp simd`, because without it the order of the sum would be fixed. This header
// includes torch and is internal to this folder.

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include <c10/util/BFloat16.h>

// Compiles a function of plain loops for three generations of x86, and the program takes the one
// for its CPU. g++ has this for no other architecture. With sanitizers it is left out, because they
// start only after the choice is made.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define NMM_VECTOR_CLONES [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#else
#define NMM_VECTOR_CLONES
#endif

namespace neuronmm::finetune {

// The type that computations with numbers of type T use.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Returns x in that wider type.
template <typename T>
[[gnu::always_inline]] inline Wide<T> widened(T x) {
  return x;
}
template <>
[[gnu::always_inline]] inline float widened(c10::BFloat16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.x) << 16);
}

// Rounds to the nearest number, and of two equally near ones to the even one. A NaN stays a NaN.
template <typename T>
[[gnu::always_inline]] inline T narrowed(Wide<T> x) {
  if constexpr (std::is_same_v<T, c10::BFloat16>) {
    const auto bits = std::bit_cast<uint32_t>(x);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return {static_cast<uint16_t>(rounded), c10::BFloat16::from_bits()};
  } else {
    return x;
  }
}

// Returns e^x with a relative error below 2^-22 (Cephes' polynomial). Below -87.3 and above 88.3 it
// returns the value at that bound. A NaN gives a NaN.
[[gnu::always_inline]] inline float exp_of(float x) {
  x = x < -87.3f ? -87.3f : x;
  x = x > 88.3f ? 88.3f : x;
  constexpr float kToInteger = 0x1.8p23f;  // adding this rounds to an integer
  const float shifted = x * 1.44269504f + kToInteger;
  const float n = shifted - kToInteger;
  const float r = x - n * 0.693359375f + n * 2.12194440e-4f;
  float y = 1.9875691500e-4f;
  y = y * r + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * r * r + r + 1.0f;
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kToInteger);
  return y * std::bit_cast<float>((exponent + 127u) << 23);
}
[[gnu::always_inline]] inline double exp_of(double x) { return std::exp(x); }

}  // namespace neuronmm::finetune
