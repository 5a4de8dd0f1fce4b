#pragma once
// This file declares kernels for Y = X·W in the forms of the matrix multiplication tutorial of NKI
// ("Matrix Multiplication", AWS Neuron documentation). In HBM they read X [M, K] or X^T [K, M], and
// W [K, N]. Callers reach them by name through registry.h. They are the baselines of the fused
// kernels in xuv.h.

#include <vector>

#include "trainium/kernels/blocks.h"
#include "trainium/kernels/description.h"
#include "trainium/kernels/kernel.h"
#include "trainium/tile/builder.h"

namespace neuronmm::kernels {

// Returns the tiling parameters of the tutorial's fully optimised kernel.
std::vector<TilingParameter> matmul_tiling();

// Loads both operand tiles for every multiplication.
tile::Program matmul_tiled(const KernelShape&, const Tiling&, const KernelOptions&);
// Loads the strip of X once per row tile and the strip of W once per output tile.
tile::Program matmul_hoisted(const KernelShape&, const Tiling&, const KernelOptions&);
// Loads strips in the same way, for output blocks of BM x BN tiles.
tile::Program matmul_blocked(const KernelShape&, const Tiling&, const KernelOptions&);
// Makes the tutorial's fully optimised kernel. It reads W once, and the sums of all M rows stay in
// SBUF while K advances.
tile::Program matmul_optimized(const KernelShape&, const Tiling&, const KernelOptions&);
// Uses the same blocks with the sums of only one output block, so that SBUF use does not grow with
// M.
tile::Program matmul_fixed_order(const KernelShape&, const Tiling&, const KernelOptions&);

// The operands of optimized_matmul, which adds the loop nest of matmul_optimized to a kernel made
// of several multiplications.
struct MatmulOperands {
  LeftOperand x;
  tile::BufferId w, y;
};
void optimized_matmul(const Context& c, const KernelShape& shape, const Tiling& tiling,
                      const MatmulOperands& operands);

}  // namespace neuronmm::kernels
