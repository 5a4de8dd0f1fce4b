#pragma once
// Y = X·W with W [K, N] of rank r in pivoted form (PIFA, arXiv 2501.19090), which has r·(K + N - r)
// parameters where U and V have r·(K + N):
//
//   input pivots    T = X_P + X_rest·D, Y = T·A           D [K - r, r], A [r, N]
//   output pivots   Z = X·A, Y = [Z, Z·C]                 A [K, r], C [r, N - r]
//
// P are the r columns of X, or of Y, that W's rank is picked from. In HBM they are the first r
// columns: whoever writes X (a norm) puts them there, and whoever reads Y knows their order; these
// kernels do not gather. The stages are those of low_rank.h: the strip T^T begins with X_P^T and is
// what the PSUM results are added to; the strip Z^T is itself part of the output.

#include "trainium/kernels/kernel.h"
#include "trainium/kernels/low_rank.h"
#include "trainium/tile/program.h"

namespace neuronmm::kernels {

// X [M, K], transposed by the loading DMA; Y [M, N].
tile::Program xuv_pivoted(const KernelShape&, const Tiling&, const KernelOptions&);
tile::Program xuv_pivoted_out(const KernelShape&, const Tiling&, const KernelOptions&);
// The same from X^T [K, M].
tile::Program xtuv_pivoted(const KernelShape&, const Tiling&, const KernelOptions&);
tile::Program xtuv_pivoted_out(const KernelShape&, const Tiling&, const KernelOptions&);

// Stores Z of the strip Z^T [s, rows m] as the first s columns of y. The Tensor engine transposes
// it, in blocks of `columns`; needs a Context that transposes.
void store_strip(const Context& c, const tile::Step& columns, const tile::Tile& m,
                 const tile::Tile& ranks, tile::BufferId strip, tile::BufferId y);

}  // namespace neuronmm::kernels
