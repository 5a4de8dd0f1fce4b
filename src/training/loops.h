#pragma once
// Loops over contiguous numbers, which the compiler vectorizes, and helpers of such loops elsewhere
// in this folder. The same loop with double is the plain version that tests compare with. Files
// with loops have compiler options of their own (CMakeLists.txt). Loops that sum up are marked `omp
// simd`, because without it the order of the sum would be fixed.

#include <bit>
#include <cmath>
#include <cstdint>

// Compiles a function of plain loops for three generations of x86, and the program takes the one
// for its CPU. g++ has this for no other architecture. With sanitizers it is left out, because they
// start only after the choice is made.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define NMM_TRAINING_CLONES [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#else
#define NMM_TRAINING_CLONES
#endif

namespace neuronmm::training {

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

// Returns tanh(x). In fp32 its absolute error is below 2^-22.
template <typename T>
[[gnu::always_inline]] inline T tanh_of(T x) {
  return T{1} - T{2} / (T{1} + exp_of(T{2} * x));
}
template <>
[[gnu::always_inline]] inline double tanh_of(double x) {
  return std::tanh(x);
}

// Returns Σ a·b.
template <typename T>
T dot(const T* a, const T* b, int64_t count);
// Returns the largest of at least one number.
template <typename T>
T largest_of(const T* x, int64_t count);
// Returns Σ e^(x − shift).
template <typename T>
T power_sum(const T* x, T shift, int64_t count);
// Computes y = factor · e^(x − shift), where y may be x.
template <typename T>
void powers(const T* x, T shift, T factor, int64_t count, T* y);
// Computes y = factor · x, where y may be x.
template <typename T>
void scaled(T factor, const T* x, int64_t count, T* y);
// Computes y = x + factor · change, where y may be x.
template <typename T>
void add_scaled(const T* x, T factor, const T* change, int64_t count, T* y);
// Computes y = cap · tanh(x / cap), where y may be x.
template <typename T>
void soft_cap(T cap, const T* x, int64_t count, T* y);

}  // namespace neuronmm::training
