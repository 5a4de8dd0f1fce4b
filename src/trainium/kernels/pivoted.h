#pragma once
// This file declares kernels for Y = X·W, where W [K, N] has rank r and is stored in pivoted form
// (PIFA, arXiv 2501.19090). The pivoted form has r·(K + N - r) parameters, while U and V have r·(K
// + N). Callers reach the kernels by name through registry.h.
//
//   input pivots    T = X_P + X_rest·D, Y = T·A           D [K - r, r], A [r, N]
//   output pivots   Z = X·A, Y = [Z, Z·C]                 A [K, r], C [r, N - r]
//
// P are the r columns of X, or of Y, that are the pivots of W. In HBM they are the first r columns,
// and these kernels do not gather: whoever writes X (a norm) puts the pivots first, and whoever
// reads Y knows their order. The stages are those of low_rank.h. With input pivots the strip T^T
// begins as X_P^T, and the PSUM results are added to it. With output pivots the strip Z^T is itself
// part of the output.

#include "trainium/kernels/kernel.h"
#include "trainium/kernels/low_rank.h"
#include "trainium/tile/program.h"

namespace neuronmm::kernels {

// Make kernels from X [M, K], which is transposed while it loads, to Y [M, N].
tile::Program xuv_pivoted(const KernelShape&, const Tiling&, const KernelOptions&);
tile::Program xuv_pivoted_out(const KernelShape&, const Tiling&, const KernelOptions&);
// Make the same kernels from X^T [K, M].
tile::Program xtuv_pivoted(const KernelShape&, const Tiling&, const KernelOptions&);
tile::Program xtuv_pivoted_out(const KernelShape&, const Tiling&, const KernelOptions&);

// Stores Z from the strip Z^T [s, rows m] as the first s columns of y. The Tensor engine transposes
// the strip in blocks of `columns`, so the Context must be made with `transposes`.
void store_strip(const Context& c, const tile::Step& columns, const tile::Tile& m,
                 const tile::Tile& ranks, tile::BufferId strip, tile::BufferId y);

}  // namespace neuronmm::kernels
