#pragma once
// This file holds the two stages that all low-rank kernels are made of, for the rows `m` of X
// (NeuronMM, arXiv 2510.25977). The kernels in xuv.cc, mlp.cc, pivoted.cc, dense_mlp.cc and
// narrow_mlp.cc call them.
//
// * project: strip [r, rows] = (X·U)^T. U tiles are stationary and X^T moves, so the Tensor engine
//   itself emits the transposed strip that the next stage needs.
// * expand: Y [rows, N] = strip^T·V with strip tiles stationary, or Y^T [N, rows] = V^T·strip with
//   V tiles stationary.
//
// Loops walk K and r in blocks. Sums over the blocks stay in SBUF in the `accumulate` dtype. The
// strip that stage two reads is in the operands' dtype. With fp32 sums of bf16 operands the strip
// therefore takes 6 bytes per element during stage one instead of 2. There are two ways to save
// this memory:
// * BK covers K, so that PSUM holds the whole sum.
// * Stage one makes several passes over X, each for a share of the ranks. Only the sums of that
//   share are in fp32, which takes 2 + 4 / passes bytes per element.

#include <functional>
#include <string>
#include <vector>

#include "trainium/kernels/blocks.h"
#include "trainium/kernels/description.h"
#include "trainium/kernels/kernel.h"
#include "trainium/tile/builder.h"

namespace neuronmm::kernels {

// The block sizes of a low-rank product, in elements.
struct LowRankTiles {
  tile::Step BM, BK, Bu, Br, BN;  // The blocks of X are BM x BK, of U BK x Bu, and of V Br x BN.
  tile::Step row_tile;            // The rows of X that one stage-one matmul streams.
  int64_t passes;                 // The largest number of passes over X.
  int64_t copies;           // The number of copies of each block of X, U and V; the copies rotate.
  std::string prefix;       // The prefix of the parameters' names.
  bool contiguous = false;  // True if X and U load as in contiguous.h.
  TransposeBy transpose = TransposeBy::kDma;  // The engine that transposes a natural X.

  // Returns the ranks that one pass covers: equal shares in tiles of 128, rounded up to whole
  // blocks of U.
  tile::Step pass_ranks(int64_t r) const;
};
// Converts tiling parameters to elements: BM counts tiles of `rows` elements, BN tiles of
// `columns`, and BK, Bu and Br tiles of 128. Defaults for absent parameters follow the paper's
// kernels: Bu is Br, there is one pass, and there are two copies.
LowRankTiles low_rank_tiles(const Tiling& tiling, int64_t rows, int64_t columns,
                            std::string_view prefix = "");

// Returns the tiling parameters of a low-rank chain that makes Y or Y^T. The defaults are the
// blocks of the paper's released kernels. Some parameters, such as "passes" and "copies", are fixed
// in those kernels.
std::vector<TilingParameter> chain_tiling(Layout y);
// The parameter of kernels that take a natural X. It says who transposes X: 0 is the loading DMA, 1
// the Tensor engine.
TilingParameter transpose_parameter();
// Returns the engine that this parameter of a tiling chooses.
TransposeBy transpose_by(const Tiling& tiling, std::string_view prefix = "");
// Returns the names that low_rank_tiles and pass_ranks give to the steps that follow from the
// parameters.
std::vector<DerivedStep> chain_steps(std::string_view prefix = "");

// A source of X^T for stage one. A LeftBlock is called once for each block of K, and the result
// gives the access to one tile of that block.
using LeftTile = std::function<tile::Access(const tile::Tile& kt, const tile::Tile& mt)>;
using LeftBlock = std::function<LeftTile(const tile::Tile& k)>;
// Returns a source that loads each block of X^T for the rows m into SBUF, with load_left
// (blocks.h).
LeftBlock load_left_blocks(const Context& c, std::string name, const LeftOperand& x,
                           const tile::Tile& m, int64_t copies);

// Returns a source that reads a strip [tiles of 128, rows m] of all of `whole` in SBUF. Nothing is
// loaded.
LeftBlock strip_in_sbuf(tile::BufferId strip, const tile::Tile& whole, const tile::Tile& m);

// A pair of factors. `prefix` distinguishes the buffers of several pairs: "gate_".
struct Factors {
  tile::BufferId u, v;
  std::string prefix;
  // Buffers that several pairs share for their blocks. With -1 each pair has buffers of its own.
  tile::BufferId u_block = -1, v_block = -1;
};

// Compute the strips [rank tiles of 128, rows] of each factor pair, in the order of `factors`, for
// the ranks `ranks`. All pairs share the blocks of X. project_sums returns the sums in `dtype`;
// project returns strips that are rounded for stage two.
std::vector<BlockSum> project_sums(const Context& c, int64_t K, const LowRankTiles& tiles,
                                   const tile::Tile& m, const tile::Tile& ranks, const LeftBlock& x,
                                   const std::vector<Factors>& factors, DType dtype);
std::vector<tile::BufferId> project(const Context& c, int64_t K, const LowRankTiles& tiles,
                                    const tile::Tile& m, const tile::Tile& ranks,
                                    const LeftBlock& x, const std::vector<Factors>& factors);

// Computes the strip of a weight with input pivots, T^T = X_P^T + (X_rest·D)^T, for the rows m of X
// [M, K] or X^T. The first `ranks` columns of X are X_P. If X is natural, the Context must be made
// with `transposes`.
tile::BufferId project_pivots(const Context& c, int64_t K, const LowRankTiles& tiles,
                              const tile::Tile& m, const tile::Tile& ranks, const LeftOperand& x,
                              const Factors& d);

// An output block of stage two: strip^T·V for the rows m and columns n.
struct OutputBlock {
  const tile::Tile &m, &n;
  // The layout is [column tiles of 128, rows] instead of [row tiles of 128, columns].
  bool transposed;
};
// Declares the sums of one output block and zeroes them if `blocks` rank blocks are to be added.
BlockSum output_sums(const Context& c, const OutputBlock& block, const std::string& prefix,
                     DType dtype, int64_t blocks);
// Adds the contraction over the rank block `q` to the sums. `q` is a part of `ranks`, the ranks
// that the strip holds.
void expand_block(const Context& c, const LowRankTiles& tiles, const OutputBlock& block,
                  const tile::Tile& q, const tile::Tile& ranks, const Factors& factors,
                  tile::BufferId strip, const BlockSum& sums);
// Returns the sums over all of `ranks`, kept in `dtype`.
BlockSum expand(const Context& c, const LowRankTiles& tiles, const OutputBlock& block,
                const tile::Tile& ranks, const Factors& factors, tile::BufferId strip, DType dtype);
// Stores an output block to `y`, rounded to the operands' dtype.
void store_output(const Context& c, const OutputBlock& block, const BlockSum& sums,
                  tile::BufferId y);

}  // namespace neuronmm::kernels
