#pragma once
// The dense SwiGLU layer, fused: what the low-rank one (mlp.h) is measured against. X [M, K] tokens
// x hidden size, N = intermediate size.
//
//   H^T [N, rows] = (silu(X·Wg) * (X·Wu))^T    W tiles stationary, X^T moves; stays in SBUF
//   Y [rows, K]   = H·Wd                       H^T tiles stationary, Wd moves
//
// for one block of rows after the other; each block reads all three weights once.

#include "trainium/kernels/kernel.h"
#include "trainium/kernels/low_rank.h"
#include "trainium/tile/program.h"

namespace neuronmm::kernels {

// The blocks of both stages in the words of low_rank.h: up.Br columns of Wg and Wu at a time;
// down.Br rows x down.BN columns of Wd.
struct DenseMlpTiles {
  LowRankTiles up, down;
};
DenseMlpTiles dense_mlp_tiles(const Tiling& tiling);

tile::Program dense_mlp(const KernelShape&, const Tiling&, const KernelOptions&);

}  // namespace neuronmm::kernels
