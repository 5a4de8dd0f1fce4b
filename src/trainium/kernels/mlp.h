#pragma once
// This file declares the low-rank SwiGLU layer of NeuronMM (arXiv 2510.25977, algorithms 2 and 3).
// X is [M, K], tokens x hidden size, r is the rank, and N is the intermediate size. Callers reach
// the kernels by name through registry.h.
//
//   H^T [N, M] = (silu(X·Ug·Vg) * (X·Uu·Vu))^T      mlp_up
//   Y [M, K]   = H·Ud·Vd                            the down half, an xtuv that reads H^T

#include "trainium/kernels/kernel.h"
#include "trainium/tile/program.h"

namespace neuronmm::kernels {

// Makes the gate and up half as one kernel with two chains that share the blocks of X. H^T is
// stored transposed.
tile::Program mlp_up(const KernelShape&, const Tiling&, const KernelOptions&);

// Makes both halves. H^T goes through HBM. With the tiling parameter `h_on_chip` = 1 it stays in
// SBUF for the rows of one block instead.
tile::Program mlp(const KernelShape&, const Tiling&, const KernelOptions&);

}  // namespace neuronmm::kernels
