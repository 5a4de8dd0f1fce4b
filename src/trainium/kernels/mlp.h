#pragma once
// The low-rank SwiGLU layer of NeuronMM (arXiv 2510.25977, algorithms 2 and 3): X [M, K] tokens x
// hidden size, rank r, N = intermediate size.
//
//   H^T [N, M] = (silu(X·Ug·Vg) * (X·Uu·Vu))^T      mlp_up
//   Y [M, K]   = H·Ud·Vd                             the down half, an xtuv that reads H^T

#include "trainium/kernels/kernel.h"
#include "trainium/tile/program.h"

namespace neuronmm::kernels {

// One kernel, two chains that share the blocks of X; H^T is stored transposed.
tile::Program mlp_up(const KernelShape&, const Tiling&, const KernelOptions&);

// Both halves. H^T goes through HBM, or, with the tiling parameter `h_on_chip` = 1, stays in SBUF
// for the rows of one block.
tile::Program mlp(const KernelShape&, const Tiling&, const KernelOptions&);

}  // namespace neuronmm::kernels
