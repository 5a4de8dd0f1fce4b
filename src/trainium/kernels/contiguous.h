#pragma once
// Few rows take as long as their weights take to load, and those load fastest in long runs of
// bytes. Where K runs in the order k = p · K/128 + j, each partition p has consecutive rows of U,
// so that a block of U is one transfer with a run per partition, and a row of X is [128, K/128] as
// it lies. For up to 128 rows and a K of whole tiles; elsewhere the parameter changes nothing.

#include <string_view>

#include "trainium/kernels/blocks.h"
#include "trainium/kernels/description.h"
#include "trainium/kernels/low_rank.h"

namespace neuronmm::kernels {

// Of kernels that take X [M, K] as it lies.
TilingParameter contiguous_parameter();

bool loads_contiguously(const LowRankTiles& tiles, int64_t M, int64_t K);
// Whether few_rows.h makes Y from such a strip of `ranks`: its V has to have a whole tile of rows.
bool ends_in_few_rows(const LowRankTiles& tiles, int64_t M, int64_t K, int64_t ranks);
// Whether X then passes through the Tensor engine, which a Context has to know.
bool transposes_contiguous_rows(int64_t M);

// A weight [K, N] as [128, K/128, N], and factors whose U is that and whose V is row tiles.
tile::BufferId contiguous_view(tile::Builder& b, std::string_view name, tile::BufferId w, int64_t K,
                               int64_t N);
struct ContiguousNames {
  std::string_view u, v;
};
Factors contiguous_factors(tile::Builder& b, Factors factors, const ContiguousNames& names,
                           int64_t K, int64_t r);
// A weight of at least 128 rows as row tiles (tile/builder.h); another as it is.
tile::BufferId tiled_rows(tile::Builder& b, std::string_view name, tile::BufferId w);

// All of X^T [K, rows m] for X [M, K], as [128, K/128, rows].
LeftBlock load_left_contiguous(const Context& c, tile::BufferId x, int64_t M, int64_t K,
                               const tile::Tile& m);

}  // namespace neuronmm::kernels
