#pragma once
// This file declares the fused SwiGLU layer of a narrow MLP and of a pivoted MLP. X is [M, K],
// tokens x hidden size, and N is the intermediate size. Callers reach the kernels by name through
// registry.h.
//
//   T = X_P + X_rest·D                     D [K - r, r]: gate and up share r input pivots
//   H = silu(T·Wg) * (T·Wu)                Wg, Wu [r, N], dense
//   Z = H·Wd, Y = [Z, Z·C]                 Wd [N, s], C [s, K - s]: s output pivots
//
// In a pivoted MLP, gate and up have r input pivots each, so there is a separate T for each of
// them.
//
// One block of rows after the other goes through the whole layer and reads every weight once. T, H
// and Z stay in SBUF. Either end of a narrow MLP may be as wide as the hidden size; then there is
// no D, or no C. In HBM the pivots are the first columns of X and of Y, as in pivoted.h. Two sets
// of pivots need two copies of X, each with its own pivots first. The kernels cannot gather pivots
// themselves: an indirect DMA gathers rows, and gathering a column of X takes a descriptor per
// element of 2 bytes.

#include "trainium/kernels/kernel.h"
#include "trainium/kernels/low_rank.h"
#include "trainium/tile/program.h"

namespace neuronmm::kernels {

// The blocks of the four stages, with the names of low_rank.h. The blocks of an end that is not
// narrow are not used.
struct NarrowMlpTiles {
  LowRankTiles in, up, down, out;
};
NarrowMlpTiles narrow_mlp_tiles(const Tiling& tiling);

tile::Program narrow_mlp(const KernelShape&, const Tiling&, const KernelOptions&);
// Wd is [N, K].
tile::Program narrow_mlp_in(const KernelShape&, const Tiling&, const KernelOptions&);
// Wg is [K, N].
tile::Program narrow_mlp_out(const KernelShape&, const Tiling&, const KernelOptions&);
tile::Program pivoted_mlp(const KernelShape&, const Tiling&, const KernelOptions&);
// Wd is [N, K].
tile::Program pivoted_mlp_in(const KernelShape&, const Tiling&, const KernelOptions&);

}  // namespace neuronmm::kernels
