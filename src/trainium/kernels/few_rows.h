#pragma once
// This file holds the last stage, Y = strip^T·V, of kernels with up to 128 rows that load
// contiguously (contiguous.h). Such a kernel takes as long as its weights take to load, so four
// things matter:
//
// * V loads as row tiles (tile/builder.h), a block of them in one transfer.
// * Blocks of columns become smaller towards the end. The Tensor engine then never falls far
//   behind, and little work is left after the last byte has arrived.
// * Rows of V that do not fill a tile are spread over all partitions. Each DMA engine serves eight
//   partitions, so half a tile would keep half of the engines idle. The columns of a block are
//   divided into shares, and the rows of each share begin at another partition: 0 and 64, or
//   multiples of 32.
// * The same division spreads a Y of few rows, which would otherwise leave through one engine.

#include "trainium/kernels/low_rank.h"

namespace neuronmm::kernels {

// Computes Y [rows, columns] for the rows m, which are all rows, from a strip of all `ranks` and
// from V as row tiles.
void expand_few_rows(const Context& c, const LowRankTiles& tiles, const tile::Tile& m,
                     int64_t columns, const tile::Tile& ranks, const Factors& factors,
                     tile::BufferId strip, tile::BufferId y);
// Returns how many matmuls expand_few_rows takes.
int64_t few_rows_matmuls(const LowRankTiles& tiles, int64_t M, int64_t columns, int64_t ranks);

}  // namespace neuronmm::kernels
