#pragma once
// This file declares the fused dense SwiGLU layer, the baseline for the low-rank layer (mlp.h). X
// is [M, K], tokens x hidden size, and N is the intermediate size.
//
//   H^T [N, rows] = (silu(X·Wg) * (X·Wu))^T    W tiles stationary, X^T moves; stays in SBUF
//   Y [rows, K]   = H·Wd                       H^T tiles stationary, Wd moves
//
// The kernel processes one block of rows after the other, and each block reads all three weights
// once. narrow_mlp.cc uses the two stages, too.

#include <vector>

#include "trainium/kernels/kernel.h"
#include "trainium/kernels/low_rank.h"
#include "trainium/tile/program.h"

namespace neuronmm::kernels {

// The blocks of both stages, with the names of low_rank.h. A block of Wg or Wu has up.Br columns; a
// block of Wd has down.Br rows x down.BN columns.
struct DenseMlpTiles {
  LowRankTiles up, down;
};
DenseMlpTiles dense_mlp_tiles(const Tiling& tiling);

// The dense weights of gate and up.
struct GateAndUp {
  tile::BufferId gate, up;
  // The buffer that blocks of both weights share if they are views [128, K/128, N].
  tile::BufferId block = -1;
};
// Computes all of H^T [N, rows] for the rows m, as [128, N tiles, rows] in SBUF. `x` holds one
// source of X^T for gate and up together, or one for each. `contraction` is the dimension of X^T
// that the weights are multiplied along.
tile::BufferId hidden_rows(const Context& c, const tile::Tile& contraction, int64_t N,
                           const LowRankTiles& tiles, const GateAndUp& weights, const tile::Tile& m,
                           const std::vector<LeftBlock>& x);
// Computes Y [rows, columns] = H·Wd for the rows m.
void dense_down(const Context& c, int64_t N, int64_t columns, const LowRankTiles& tiles,
                const tile::Tile& m, tile::BufferId h, tile::BufferId w_down, tile::BufferId y);

tile::Program dense_mlp(const KernelShape&, const Tiling&, const KernelOptions&);

}  // namespace neuronmm::kernels
