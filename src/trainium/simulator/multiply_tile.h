#pragma once
// The arithmetic of one nc_matmul on fp32 values.

#include <cstdint>

namespace neuronmm::simulator {

// Columns of `moving` and `product` are padded to a multiple of this.
inline constexpr int64_t kColumnPadding = 32;

// product [M, N] = stationary [K, M]^T · moving [K, N], summed over k in order, fp32. All are
// dense; N is a multiple of kColumnPadding.
void multiply_tile(const float* stationary, const float* moving, int64_t K, int64_t M, int64_t N,
                   float* product);

}  // namespace neuronmm::simulator
