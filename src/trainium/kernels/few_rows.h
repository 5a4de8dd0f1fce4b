#pragma once
// The stage that ends a kernel for up to 128 rows, Y = strip^T·V. Such a kernel takes as long as
// its weights take to load, so that four things count:
//
//   * V loads as row tiles (tile/builder.h), a block of them in one transfer;
//   * blocks of columns become smaller towards the end, so that the Tensor engine is never far
//     behind and little is left to do behind the last byte;
//   * rows of V that fill no tile are spread over all partitions, since each DMA engine serves
//     eight of them: half a tile would keep half of the engines idle. The columns of a block are
//     divided into shares, and each share's rows begin at another partition: 0 and 64, or 0, 32, 64
//     and 96;
//   * so are few rows of Y, which would all leave through one engine.

#include "trainium/kernels/low_rank.h"

namespace neuronmm::kernels {

// Y [rows, columns] for the rows m, all of them, from a strip of all `ranks` and from V as row
// tiles.
void expand_few_rows(const Context& c, const LowRankTiles& tiles, const tile::Tile& m,
                     int64_t columns, const tile::Tile& ranks, const Factors& factors,
                     tile::BufferId strip, tile::BufferId y);
// How many matmuls that takes.
int64_t few_rows_matmuls(const LowRankTiles& tiles, int64_t M, int64_t columns, int64_t ranks);

}  // namespace neuronmm::kernels
