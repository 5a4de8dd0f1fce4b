#pragma once
// The SwiGLU layer of a narrow MLP, fused. X [M, K] tokens x hidden size, N = intermediate size:
//
//   T = X_P + X_rest·D                     D [K - r, r]: gate and up share r input pivots
//   H = silu(T·Wg) * (T·Wu)                Wg, Wu [r, N], dense
//   Z = H·Wd, Y = [Z, Z·C]                 Wd [N, s], C [s, K - s]: s output pivots
//
// and of a pivoted MLP, whose gate and up have r input pivots each of their own: a T for each.
//
// One block of rows after the other goes through all of it and reads every weight once; T, H and Z
// stay in SBUF. Either end of a narrow MLP may be as wide as the hidden size: then there is no D,
// or no C. In HBM the pivots are the first columns of X and of Y, as in pivoted.h. Two sets of
// pivots are two copies of X, each with its own first: an indirect DMA gathers rows, and a column
// of X is a descriptor per element of 2 bytes.

#include "trainium/kernels/kernel.h"
#include "trainium/kernels/low_rank.h"
#include "trainium/tile/program.h"

namespace neuronmm::kernels {

// The blocks of the four stages in the words of low_rank.h; those of an end that is not narrow are
// not used.
struct NarrowMlpTiles {
  LowRankTiles in, up, down, out;
};
NarrowMlpTiles narrow_mlp_tiles(const Tiling& tiling);

tile::Program narrow_mlp(const KernelShape&, const Tiling&, const KernelOptions&);
tile::Program narrow_mlp_in(const KernelShape&, const Tiling&, const KernelOptions&);   // Wd [N, K]
tile::Program narrow_mlp_out(const KernelShape&, const Tiling&, const KernelOptions&);  // Wg [K, N]
tile::Program pivoted_mlp(const KernelShape&, const Tiling&, const KernelOptions&);
tile::Program pivoted_mlp_in(const KernelShape&, const Tiling&, const KernelOptions&);  // Wd [N, K]

}  // namespace neuronmm::kernels
