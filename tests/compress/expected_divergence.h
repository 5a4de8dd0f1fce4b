#pragma once
// Computes KL(softmax a || softmax b) by its definition, in long double. Tests compare the fast
// function with it.

#include <cmath>
#include <cstdint>

namespace neuronmm::compress {

inline long double expected_divergence(const float* a, const float* b, int64_t count) {
  long double sum_a = 0, sum_b = 0, result = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum_a += std::exp(static_cast<long double>(a[i]));
    sum_b += std::exp(static_cast<long double>(b[i]));
  }
  for (int64_t i = 0; i < count; ++i) {
    const long double p = std::exp(static_cast<long double>(a[i])) / sum_a;
    const long double q = std::exp(static_cast<long double>(b[i])) / sum_b;
    result += p * std::log(p / q);
  }
  return result;
}

}  // namespace neuronmm::compress
