#pragma once
// This file loads weights in long runs of bytes, for kernels with up to 128 rows. Such a kernel
// takes as long as its weights take to load, and long runs load fastest. The contraction runs in
// the order k = p · K/128 + j, so each partition p holds consecutive rows of U. A block of U is
// then one transfer with one run per partition, and a row of X is [128, K/128] without reordering.
//
// The kernels of xuv.h, mlp.h and dense_mlp.h use it. It needs at most 128 rows and a K of whole
// tiles; otherwise the parameter changes nothing.

#include <string_view>

#include "trainium/kernels/blocks.h"
#include "trainium/kernels/description.h"
#include "trainium/kernels/low_rank.h"

namespace neuronmm::kernels {

// Returns the tiling parameter "contiguous" of kernels that take X [M, K] in its natural layout.
TilingParameter contiguous_parameter();

// Returns true if the tiling asks for contiguous loads and the shape allows them.
bool loads_contiguously(const LowRankTiles& tiles, int64_t M, int64_t K);
// Returns true if few_rows.h computes Y from a contiguously loaded strip of `ranks`. It needs a V
// with at least one whole tile of rows.
bool ends_in_few_rows(const LowRankTiles& tiles, int64_t M, int64_t K, int64_t ranks);
// Returns true if contiguously loaded rows of X pass through the Tensor engine. The Context must
// then be made with `transposes`.
bool transposes_contiguous_rows(int64_t M);

// Declares the view [128, K/128, N] of a weight [K, N].
tile::BufferId contiguous_view(tile::Builder& b, std::string_view name, tile::BufferId w, int64_t K,
                               int64_t N);
// The names of the two factors.
struct ContiguousNames {
  std::string_view u, v;
};
// Returns factors whose U is such a view and whose V is row tiles.
Factors contiguous_factors(tile::Builder& b, Factors factors, const ContiguousNames& names,
                           int64_t K, int64_t r);
// Returns a weight of at least 128 rows as row tiles (tile/builder.h), and a smaller weight
// unchanged.
tile::BufferId tiled_rows(tile::Builder& b, std::string_view name, tile::BufferId w);

// Loads all of X^T [K, rows m] from X [M, K], as [128, K/128, rows].
LeftBlock load_left_contiguous(const Context& c, tile::BufferId x, int64_t M, int64_t K,
                               const tile::Tile& m);

}  // namespace neuronmm::kernels
