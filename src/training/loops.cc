#include "training/loops.h"

namespace neuronmm::training {

template <typename T>
NMM_TRAINING_CLONES T dot(const T* a, const T* b, int64_t count) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

template <typename T>
NMM_TRAINING_CLONES T largest_of(const T* x, int64_t count) {
  T largest = x[0];
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < count; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

template <typename T>
NMM_TRAINING_CLONES T power_sum(const T* x, T shift, int64_t count) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += exp_of(x[i] - shift);
  return sum;
}

template <typename T>
NMM_TRAINING_CLONES void powers(const T* x, T shift, T factor, int64_t count, T* y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = factor * exp_of(x[i] - shift);
}

template <typename T>
NMM_TRAINING_CLONES void scaled(T factor, const T* x, int64_t count, T* y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = factor * x[i];
}

template <typename T>
NMM_TRAINING_CLONES void add_scaled(const T* x, T factor, const T* change, int64_t count, T* y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] + factor * change[i];
}

template <typename T>
NMM_TRAINING_CLONES void soft_cap(T cap, const T* x, int64_t count, T* y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = cap * tanh_of(x[i] / cap);
}

#define NMM_INSTANTIATE(T)                                      \
  template T dot(const T*, const T*, int64_t);                  \
  template T largest_of(const T*, int64_t);                     \
  template T power_sum(const T*, T, int64_t);                   \
  template void powers(const T*, T, T, int64_t, T*);            \
  template void scaled(T, const T*, int64_t, T*);               \
  template void add_scaled(const T*, T, const T*, int64_t, T*); \
  template void soft_cap(T, const T*, int64_t, T*);
NMM_INSTANTIATE(float)
NMM_INSTANTIATE(double)
#undef NMM_INSTANTIATE

}  // namespace neuronmm::training
