#pragma once
// The two stages that all low-rank kernels are made of, for the rows `m` of X (NeuronMM, arXiv
// 2510.25977):
//
//   project   strip [r, rows] = (X·U)^T. U tiles are stationary and X^T moves, so that the Tensor
//             engine itself emits the transposed strip, which is what the next stage needs.
//   expand    Y [rows, N] = strip^T·V (strip tiles stationary), or
//             Y^T [N, rows] = V^T·strip (V tiles stationary).
//
// K and r are walked in blocks. What is summed over the blocks stays in SBUF in the `accumulate`
// dtype; the strip that stage two reads is in the operands' dtype. With fp32 sums of bf16 operands
// the strip takes 6 bytes per element during stage one, in place of 2. Two ways out: BK covers K,
// so that PSUM holds the whole sum; or stage one makes several passes over X, each for a share of
// the ranks, with the sums of that share alone in fp32: 2 + 4 / passes bytes per element.

#include <functional>
#include <string>
#include <vector>

#include "trainium/kernels/blocks.h"
#include "trainium/kernels/description.h"
#include "trainium/kernels/kernel.h"
#include "trainium/tile/builder.h"

namespace neuronmm::kernels {

// Block sizes in elements.
struct LowRankTiles {
  tile::Step BM, BK, Bu, Br, BN;              // blocks of X: BM x BK, of U: BK x Bu, of V: Br x BN
  tile::Step row_tile;                        // rows of X that one stage-one matmul streams
  int64_t passes;                             // over X, at most
  int64_t copies;                             // of the blocks of X, U and V, which rotate
  std::string prefix;                         // of the parameters' names
  bool contiguous = false;                    // of X and U: contiguous.h
  TransposeBy transpose = TransposeBy::kDma;  // of a natural X

  // What one pass covers of r: equal shares in tiles of 128, rounded up to whole blocks of U.
  tile::Step pass_ranks(int64_t r) const;
};
// From tiles: BM x `rows` elements, BN x `columns`; BK, Bu and Br in tiles of 128. Without them, Bu
// is Br, passes 1, copies 2, as in the paper's kernels.
LowRankTiles low_rank_tiles(const Tiling& tiling, int64_t rows, int64_t columns,
                            std::string_view prefix = "");

// The parameters of a low-rank chain that makes Y or Y^T: the blocks of the paper's released
// kernels, and what those leave fixed.
std::vector<TilingParameter> chain_tiling(Layout y);
// Of kernels that take X as it lies: who transposes it, 0: the loading DMA, 1: the Tensor engine.
TilingParameter transpose_parameter();
TransposeBy transpose_by(const Tiling& tiling, std::string_view prefix = "");
// What low_rank_tiles and pass_ranks call the steps that follow from them.
std::vector<DerivedStep> chain_steps(std::string_view prefix = "");

// Where stage one finds X^T: called for each block of K, gives the access of one tile of it.
using LeftTile = std::function<tile::Access(const tile::Tile& kt, const tile::Tile& mt)>;
using LeftBlock = std::function<LeftTile(const tile::Tile& k)>;
LeftBlock load_left_blocks(const Context& c, std::string name, const LeftOperand& x,
                           const tile::Tile& m, int64_t copies);

// A strip [tiles of 128, rows m] that holds all of `whole`: nothing is loaded.
LeftBlock on_chip(tile::BufferId strip, const tile::Tile& whole, const tile::Tile& m);

// One factor pair; `prefix` tells the buffers of several apart: "gate_".
struct Factors {
  tile::BufferId u, v;
  std::string prefix;
  // Buffers that the blocks of several pairs rotate in; each pair has its own without.
  tile::BufferId u_block = -1, v_block = -1;
};

// The strips [rank tiles of 128, rows] of each factor pair, in the same order, for the ranks
// `ranks`; all share the blocks of X. As the sums, kept in `dtype`, or rounded for stage two.
std::vector<BlockSum> project_sums(const Context& c, int64_t K, const LowRankTiles& tiles,
                                   const tile::Tile& m, const tile::Tile& ranks, const LeftBlock& x,
                                   const std::vector<Factors>& factors, DType dtype);
std::vector<tile::BufferId> project(const Context& c, int64_t K, const LowRankTiles& tiles,
                                    const tile::Tile& m, const tile::Tile& ranks,
                                    const LeftBlock& x, const std::vector<Factors>& factors);

// The strip of a weight with input pivots, T^T = X_P^T + (X_rest·D)^T for the rows m of X [M, K] or
// X^T, whose first `ranks` columns are X_P. Needs a Context that transposes, if X is natural.
tile::BufferId project_pivots(const Context& c, int64_t K, const LowRankTiles& tiles,
                              const tile::Tile& m, const tile::Tile& ranks, const LeftOperand& x,
                              const Factors& d);

// What stage two makes of one output block: strip^T·V for the rows m and columns n.
struct OutputBlock {
  const tile::Tile &m, &n;
  bool transposed;  // [column tiles of 128, rows] in place of [row tiles of 128, columns]
};
BlockSum output_sums(const Context& c, const OutputBlock& block, const std::string& prefix,
                     DType dtype, int64_t blocks);
// Adds the contraction over the rank block `q`, one of `ranks`, which the strip holds.
void expand_block(const Context& c, const LowRankTiles& tiles, const OutputBlock& block,
                  const tile::Tile& q, const tile::Tile& ranks, const Factors& factors,
                  tile::BufferId strip, const BlockSum& sums);
// The sums over all of `ranks`, kept in `dtype`.
BlockSum expand(const Context& c, const LowRankTiles& tiles, const OutputBlock& block,
                const tile::Tile& ranks, const Factors& factors, tile::BufferId strip, DType dtype);
void store_output(const Context& c, const OutputBlock& block, const BlockSum& sums,
                  tile::BufferId y);

}  // namespace neuronmm::kernels
