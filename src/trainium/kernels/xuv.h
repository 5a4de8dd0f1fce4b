#pragma once
// The fused kernels Y = X·U·V of NeuronMM (arXiv 2510.25977) and what the paper compares them with.
// The intermediate X·U of a row block never leaves SBUF. HBM traffic of the fused ones:
// s·(M·K + ⌈M/BM⌉·r·(K + N) + M·N) bytes.

#include "trainium/kernels/kernel.h"
#include "trainium/tile/program.h"

namespace neuronmm::kernels {

// X [M, K] (transposed by the loading DMA) or X^T [K, M]; Y [M, N] or Y^T [N, M].
tile::Program xuv(const KernelShape&, const Tiling&, const KernelOptions&);
tile::Program xtuv(const KernelShape&, const Tiling&, const KernelOptions&);
tile::Program xuv_transposed(const KernelShape&, const Tiling&, const KernelOptions&);
tile::Program xtuv_transposed(const KernelShape&, const Tiling&, const KernelOptions&);

// The paper's baseline: two calls of matmul_optimized, and between them a pass that transposes X·U
// on the Tensor engine, since the second call wants its left operand transposed; all through HBM.
tile::Program xuv_sequential(const KernelShape&, const Tiling&, const KernelOptions&);
// The paper's Algorithm 1: fused, but the strip is computed again for every output block.
tile::Program xuv_naive(const KernelShape&, const Tiling&, const KernelOptions&);

}  // namespace neuronmm::kernels
