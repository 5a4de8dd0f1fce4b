#pragma once
// This file declares the fused kernels Y = X·U·V of NeuronMM (arXiv 2510.25977), and the kernels
// that the paper compares them with. Callers reach them by name through registry.h. The
// intermediate X·U of a row block never leaves SBUF in a fused kernel. With s bytes per element,
// the HBM traffic of a fused kernel is s·(P·M·K + ⌈M/BM⌉·r·(K + N) + M·N) bytes. P is the number of
// passes over X (low_rank.h), normally 1.

#include "trainium/kernels/kernel.h"
#include "trainium/tile/program.h"

namespace neuronmm::kernels {

// Make the fused kernels. The xuv functions read X [M, K], which is transposed while it loads, and
// the xtuv functions read X^T [K, M]. The output is Y [M, N], or Y^T [N, M] for names that end in
// _transposed.
tile::Program xuv(const KernelShape&, const Tiling&, const KernelOptions&);
tile::Program xtuv(const KernelShape&, const Tiling&, const KernelOptions&);
tile::Program xuv_transposed(const KernelShape&, const Tiling&, const KernelOptions&);
tile::Program xtuv_transposed(const KernelShape&, const Tiling&, const KernelOptions&);

// Makes the paper's baseline: two calls of matmul_optimized with X·U in HBM between them. A pass
// between the calls transposes X·U on the Tensor engine, because the second call needs its left
// operand transposed.
tile::Program xuv_sequential(const KernelShape&, const Tiling&, const KernelOptions&);
// Makes the paper's Algorithm 1: a fused kernel that computes the strip again for every output
// block.
tile::Program xuv_naive(const KernelShape&, const Tiling&, const KernelOptions&);

}  // namespace neuronmm::kernels
