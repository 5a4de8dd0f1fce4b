#pragma once
// The dense SwiGLU layer, fused: what the low-rank one (mlp.h) is measured against. X [M, K] tokens
// x hidden size, N = intermediate size.
//
//   H^T [N, rows] = (silu(X·Wg) * (X·Wu))^T    W tiles stationary, X^T moves; stays in SBUF
//   Y [rows, K]   = H·Wd                       H^T tiles stationary, Wd moves
//
// for one block of rows after the other; each block reads all three weights once.

#include <vector>

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

// The dense weights of one half and what the stages make of them, for the rows m. H^T lies as [128,
// N tiles, rows].
struct GateAndUp {
  tile::BufferId gate, up;
  tile::BufferId block = -1;  // that blocks of both rotate in, if they are views [128, K/128, N]
};
// All of H^T [N, rows] from X^T, of which `contraction` rows are to be had: one for gate and up, or
// one for each.
tile::BufferId hidden_rows(const Context& c, const tile::Tile& contraction, int64_t N,
                           const LowRankTiles& tiles, const GateAndUp& weights, const tile::Tile& m,
                           const std::vector<LeftBlock>& x);
// Y [rows, columns] = H·Wd.
void dense_down(const Context& c, int64_t N, int64_t columns, const LowRankTiles& tiles,
                const tile::Tile& m, tile::BufferId h, tile::BufferId w_down, tile::BufferId y);

tile::Program dense_mlp(const KernelShape&, const Tiling&, const KernelOptions&);

}  // namespace neuronmm::kernels
