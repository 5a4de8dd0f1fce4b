#pragma once
// This file declares more programs whose measurements others published. added.cc lists the
// measurements and is the only caller. As in published_kernels.h, the structure of each program is
// that of its source, and the shapes are fixed unless said otherwise. The functions check nothing:
// arguments beyond the limits given here make a program that is wrong or that the simulator
// refuses. Shapes are M x K x N. A natural X is stored as [M, K] in HBM, and X^T as [K, M].

#include <cstdint>

#include "trainium/tile/program.h"

namespace neuronmm::validation {

// A step of autocomp (github.com/ucb-bar/autocomp), examples/trn-tutorial/2_gemm. The kernel is the
// tutorial's tiled kernel at 4096 x 8192 x 8192 in bf16, and each step widens it. An output block
// has row_tiles x 2 tiles of 128 x 512. A load of X^T has x_tiles tiles of 128, and a load of W has
// w_tiles tiles of 512. Every tile of a block takes one of the 8 PSUM banks, so row_tiles is at
// most 4. A load has at most the tiles of its block: x_tiles is at most row_tiles, and w_tiles at
// most 2.
struct GemmStep {
  int64_t row_tiles, x_tiles, w_tiles;
};
tile::Program autocomp_gemm_kernel(const GemmStep& step);

// The next three programs are those of AccelOpt (github.com/zhang677/AccelOpt), NKIBench/kernels,
// in fp32.
//
// Multiplies 16 batches of 4096 x 64 x 4096 with a natural X. The rows of one batch follow those of
// the batch before it.
tile::Program nkibench_bmm_kernel();
// Computes silu of every element of a matrix of 4096 x 7168.
tile::Program nkibench_silu_kernel();
// Computes H = silu(X·Wg) * (X·Wu), then Y = H·Wd, for 4096 x 1024 x 3072 with a natural X. The
// program saves X^T and H^T to HBM, once each. It reads X^T back twice, for the second and the
// third block of columns of H, and H^T once. These bytes match the spills of the profile exactly.
tile::Program nkibench_swiglu_kernel();

// The kernel matmul_lhs_rhs of nki-autotune at 2048^3 in bf16, with a natural X that the DMA
// transposes.
tile::Program autotune_lhs_rhs_kernel();

// The program of AWS's guide to profiling: three layers with 2048 rows in fp32, whose widths are
// 2048 -> 2048 -> 1024 -> 1024. Each layer calls the tutorial's fully optimised kernel. The Tensor
// engine transposes activations. Biases and activation functions, which the compiler adds, are left
// out.
tile::Program profiled_mlp_kernel();

// A SwiGLU layer for one token in bf16, as in a vendor's kernel for decoding. Partition p of step j
// contracts element k = p · hidden/128 + j of `hidden`. In this order x is one contiguous load, and
// a block of W is a contiguous run per partition. `intermediate` must be a multiple of 32, and
// `hidden` a multiple of 512.
tile::Program decode_mlp_kernel(int64_t hidden, int64_t intermediate);

}  // namespace neuronmm::validation
