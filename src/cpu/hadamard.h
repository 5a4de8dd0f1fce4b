#pragma once
// The Hadamard rotation of a head. Keys have features that are many times as large as the others,
// so that one scale for all of them leaves the others few values. The rotation spreads a feature
// over all. Queries are rotated alike, which keeps their products. Source: Ashkboos et al., QuaRot,
// 2024 (arXiv 2404.00456).

#include <cmath>
#include <cstdint>

namespace neuronmm::cpu {

// Rotates x[0, count) in place, in blocks of the largest power of 2 that divides the count. The
// rotation is its own inverse, up to rounding.
inline void rotate_by_hadamard(float* x, int64_t count) {
  const int64_t block = count & -count;
  const float scale = 1.0f / std::sqrt(static_cast<float>(block));
  for (int64_t first = 0; first < count; first += block) {
    float* const part = x + first;
    for (int64_t half = 1; half < block; half *= 2) {
      for (int64_t i = 0; i < block; i += 2 * half) {
        for (int64_t j = i; j < i + half; ++j) {
          const float sum = part[j] + part[j + half], difference = part[j] - part[j + half];
          part[j] = sum;
          part[j + half] = difference;
        }
      }
    }
    for (int64_t i = 0; i < block; ++i) part[i] *= scale;
  }
}

}  // namespace neuronmm::cpu
