#pragma once
// This file declares more programs whose measurements others published; added.cc lists the
// measurements. As in published_kernels.h, the structure of each program is that of its source, and
// the shapes are fixed unless said otherwise.

#include <cstdint>

#include "trainium/tile/program.h"

namespace neuronmm::validation {

// A step of autocomp (github.com/ucb-bar/autocomp), examples/trn-tutorial/2_gemm. The kernel is the
// tutorial's tiled kernel at 4096 x 8192 x 8192 in bf16, and each step widens it. An output block
// has row_tiles x 2 tiles of 128 x 512. A load of X^T has x_tiles tiles of 128, and a load of W has
// w_tiles tiles of 512.
struct GemmStep {
  int64_t row_tiles, x_tiles, w_tiles;
};
tile::Program autocomp_gemm_kernel(const GemmStep& step);

// Programs of AccelOpt (github.com/zhang677/AccelOpt), NKIBench/kernels, in fp32.
// Multiplies 16 batches of 4096 x 64 x 4096 with a natural X. The batches lie below one another.
tile::Program nkibench_bmm_kernel();
tile::Program nkibench_silu_kernel();  // The shape is 4096 x 7168.
// Computes silu(X·Wg) * (X·Wu), then ·Wd, for 4096 x 1024 x 3072. X^T and H^T go through HBM, which
// matches the spills of the profile to the byte. Both are saved once; X^T is read again twice, and
// H^T once.
tile::Program nkibench_swiglu_kernel();

// The kernel matmul_lhs_rhs of nki-autotune at 2048^3 in bf16, with a natural X that the DMA
// transposes.
tile::Program autotune_lhs_rhs_kernel();

// The program of AWS's guide to profiling: three calls of the tutorial's fully optimised kernel
// with 2048 rows in fp32, 2048 -> 2048 -> 1024 -> 1024. The Tensor engine transposes activations.
// Biases and activation functions, which the compiler adds, are left out.
tile::Program profiled_mlp_kernel();

// A SwiGLU layer for one token in bf16, as in a vendor's kernel for decoding. The contraction over
// `hidden` runs in the order k = p · hidden/128 + j, so x is one contiguous load, and a block of W
// is a contiguous run per partition. `intermediate` must be a multiple of 32, and `hidden` a
// multiple of 512.
tile::Program decode_mlp_kernel(int64_t hidden, int64_t intermediate);

}  // namespace neuronmm::validation
