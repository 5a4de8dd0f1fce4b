#pragma once
// More programs whose measurements others published (added.h). As in published_kernels.h, the
// structure of each is that of its source, and the shapes are fixed unless said otherwise.

#include <cstdint>

#include "trainium/tile/program.h"

namespace neuronmm::validation {

// autocomp (github.com/ucb-bar/autocomp), examples/trn-tutorial/2_gemm: the tutorial's tiled kernel
// at 4096 x 8192 x 8192, bf16, widened step by step. An output block has row_tiles x 2 tiles of 128
// x 512; a load of X^T has x_tiles tiles of 128, one of W has w_tiles tiles of 512.
struct GemmStep {
  int64_t row_tiles, x_tiles, w_tiles;
};
tile::Program autocomp_gemm_kernel(const GemmStep& step);

// AccelOpt (github.com/zhang677/AccelOpt), NKIBench/kernels: fp32.
tile::Program nkibench_bmm_kernel();  // 16 times 4096 x 64 x 4096, X natural; batches below another
tile::Program nkibench_silu_kernel();  // 4096 x 7168
// silu(X·Wg) * (X·Wu), then ·Wd: 4096 x 1024 x 3072. X^T and H^T go through HBM, as the profile's
// spills say to the byte: both are saved once; X^T is read again twice, H^T once.
tile::Program nkibench_swiglu_kernel();

// nki-autotune, matmul_lhs_rhs: 2048^3, bf16, X natural and transposed by DMA.
tile::Program autotune_lhs_rhs_kernel();

// AWS's guide to profiling: three calls of the tutorial's fully optimised kernel, 2048 rows, fp32,
// 2048 -> 2048 -> 1024 -> 1024. Activations are transposed on the Tensor engine; biases and
// activation functions, which the compiler adds, are left out.
tile::Program profiled_mlp_kernel();

// A SwiGLU layer for one token, bf16, as a vendor's kernel for decoding has it: the contraction
// over `hidden` runs in the order k = p · hidden/128 + j, so that x is one contiguous load and a
// block of W a contiguous run per partition. Both sizes are multiples; `intermediate` of 32,
// `hidden` of 512.
tile::Program decode_mlp_kernel(int64_t hidden, int64_t intermediate);

}  // namespace neuronmm::validation
