#pragma once
// The arithmetic of one nc_matmul on fp32 values. The interpreter calls it for every matmul.

#include <cstdint>

namespace neuronmm::simulator {

// The columns of `moving` and `product` are padded to a multiple of this number.
inline constexpr int64_t kColumnPadding = 32;

// Computes product [M, N] = stationary [K, M]^T · moving [K, N] in fp32, summed over k in order.
// All three matrices are dense, and N is a multiple of kColumnPadding.
void multiply_tile(const float* stationary, const float* moving, int64_t K, int64_t M, int64_t N,
                   float* product);

}  // namespace neuronmm::simulator
