#include "trainium/kernels/low_rank.h"

#include <algorithm>

#include <fmt/format.h>

#include "trainium/kernels/contiguous.h"

namespace neuronmm::kernels {

using tile::Access;
using tile::at;
using tile::BufferId;
using tile::ceil_div;
using tile::one;
using tile::Tile;
using tile::upto;
using Iterations = tile::Builder::Iterations;

// Kernels with two low-rank products have these parameters twice, with different prefixes.
LowRankTiles low_rank_tiles(const Tiling& tiling, int64_t rows, int64_t columns,
                            std::string_view prefix) {
  const auto named = [&](std::string_view name) { return fmt::format("{}{}", prefix, name); };
  const auto step = [&](std::string_view name, int64_t tile) {
    return block_step(tiling, named(name), tile);
  };
  constexpr int64_t kAbsent = 0;
  // The paper's kernels have one block size for the ranks of both U and V.
  const bool has_u = tiling.value_or(named("Bu"), kAbsent) != kAbsent;
  const tile::Step BM = step("BM", rows);
  return {.BM = BM,
          .BK = step("BK", kPartitions),
          .Bu = step(has_u ? "Bu" : "Br", kPartitions),
          .Br = step("Br", kPartitions),
          .BN = step("BN", columns),
          .row_tile = {moving_tile(BM / 128), named("TM")},
          .passes = tiling.value_or(named("passes"), 1),
          .copies = tiling.value_or(named("copies"), 2),
          .prefix = std::string(prefix),
          .contiguous = tiling.value_or(named("contiguous"), 0) != 0,
          .transpose = transpose_by(tiling, prefix)};
}

// Passes take equal shares of r, in whole blocks of U.
tile::Step LowRankTiles::pass_ranks(int64_t r) const {
  const int64_t share = ceil_div(ceil_div(r, kPartitions), passes) * kPartitions;
  return {share <= Bu ? share : ceil_div(share, Bu) * Bu, prefix + "RP"};
}

std::vector<TilingParameter> chain_tiling(Layout y) {
  const bool natural = y == Layout::kNatural;
  const int64_t rows = natural ? kStationaryFree : kMovingFree;
  const int64_t columns = natural ? kMovingFree : kStationaryFree;
  return {{.name = "BM",
           .value = 1024 / rows,
           .meaning = fmt::format("row tiles of {} in a block of X", rows),
           .dimension = 'M',
           .tile = rows},
          {.name = "BK",
           .value = 4,
           .meaning = "contraction tiles of 128 in a block of X and U",
           .dimension = 'K',
           .tile = 128},
          {.name = "Bu",
           .value = 8,
           .meaning = "rank tiles of 128 in a block of U",
           .dimension = 'r',
           .tile = 128},
          {.name = "Br",
           .value = 8,
           .meaning = "rank tiles of 128 in a block of V",
           .dimension = 'r',
           .tile = 128},
          {.name = "BN",
           .value = natural ? 2 : 4,
           .meaning = fmt::format("column tiles of {} in a block of V", columns),
           .dimension = 'N',
           .tile = columns},
          {.name = "passes",
           .value = 1,
           .meaning = "over X, each for a share of the ranks, so that fewer sums are kept",
           .most = 8,
           .search_values = {1, 2, 4},
           .for_wide_sums = true},
          {.name = "copies",
           .value = 2,
           .meaning = "of the blocks of X, U and V, which rotate",
           .most = 4,
           .search_values = {2, 3}}};
}

// The better choice depends on the device and the shape. DMA keeps the Tensor engine free, but it
// is slow on trn1 (device_spec.cc), and on trn2 it is fast only for some shapes. The Tensor engine
// takes 128 columns per tile, and another engine must copy them out of PSUM.
TilingParameter transpose_parameter() {
  return {.name = "transpose",
          .value = 0,
          .meaning = "X by 0: the loading DMA, 1: the Tensor engine, which takes all of fp32",
          .least = 0,
          .most = 1,
          .search_values = {0, 1},
          .for_16_bits = true};
}

TransposeBy transpose_by(const Tiling& tiling, std::string_view prefix) {
  const bool tensor = tiling.value_or(fmt::format("{}transpose", prefix), 0) != 0;
  return tensor ? TransposeBy::kTensorEngine : TransposeBy::kDma;
}

std::vector<DerivedStep> chain_steps(std::string_view prefix) {
  return {{.name = fmt::format("{}TM", prefix), .meaning = "rows that one matmul streams"},
          {.name = fmt::format("{}RP", prefix), .meaning = "ranks of one pass over X"}};
}

LeftBlock load_left_blocks(const Context& c, std::string name, const LeftOperand& x, const Tile& m,
                           int64_t copies) {
  return [&c, name = std::move(name), x, m, copies](const Tile& k) -> LeftTile {
    const BufferId block = load_left(c, name, x, k, m, copies);
    return [block, m](const Tile& kt, const Tile& mt) {
      return at(block, {upto(kt), one(kt.index()), mt.in(m)});
    };
  };
}

LeftBlock strip_in_sbuf(BufferId strip, const Tile& whole, const Tile& m) {
  return [=](const Tile&) -> LeftTile {
    return [=](const Tile& kt, const Tile& mt) {
      return at(strip, {upto(kt), one(kt.index_in(whole)), mt.in(m)});
    };
  };
}

namespace {

// The rows and ranks that the sums of stage one cover.
struct Pass {
  const Tile& m;
  const Tile& ranks;
};

// Loads a block of a factor, into a buffer of its own or into one that several factors share.
BufferId load_factor(const Context& c, const LowRankTiles& tiles, BufferId shared,
                     std::string_view name, BufferId w, const Tile& k, const Tile& n) {
  if (shared < 0) return load_block(c, name, w, k, n, tiles.copies);
  c.b.allocate(shared);
  fill_block(c, shared, w, k, n);
  return shared;
}

// Adds the contraction over the block `k` to the rank tiles of the block `q`. U is stationary and
// X^T moves, so the result is transposed, as the next stage needs it for its stationary operand.
void project_block(const Context& c, const LowRankTiles& tiles, const Pass& pass, const Tile& k,
                   const Tile& q, const LeftTile& x, const Factors& factors, const BlockSum& sums) {
  const Tile& m = pass.m;
  const BufferId u_block =
      load_factor(c, tiles, factors.u_block, factors.prefix + "u_block", factors.u, k, q);
  c.b.loop("mt", m, tiles.row_tile, [&](const Tile& mt) {
    c.b.loop("rt", q, kStationaryFree, [&](const Tile& rt) {
      const Access psum = c.new_psum(upto(rt), upto(mt));
      c.b.loop("kt", k, kPartitions, [&](const Tile& kt) {
        c.b.matmul(psum, at(u_block, {upto(kt), one(kt.index()), rt.in(q)}), x(kt, mt), {kt});
      });
      sums.add({upto(rt), one(rt.index_in(pass.ranks)), mt.in(m)}, psum);
    });
  });
}

BufferId new_strip(const Context& c, const Tile& m, const Tile& ranks, const Factors& factors) {
  return c.b.sbuf(factors.prefix + "strip", c.dtype,
                  {kPartitions, ceil_div(ranks.size.max, kPartitions), m.size.max});
}

// Rounds the sums of one pass to the dtype that stage two multiplies, and writes them to their
// place in the strip.
void round_strip(const Context& c, const Pass& pass, const Tile& ranks, const BlockSum& sums,
                 BufferId strip) {
  c.b.loop("rt", pass.ranks, kPartitions, [&](const Tile& rt) {
    c.b.copy(at(strip, {upto(rt), one(rt.index_in(ranks)), upto(pass.m)}),
             sums({upto(rt), one(rt.index_in(pass.ranks)), upto(pass.m)}));
  });
}

// Adds the contraction over the block `k` to the sums of all factor pairs. A block of X is loaded
// once for all ranks and all pairs.
void project_blocks(const Context& c, const LowRankTiles& tiles, const Pass& pass, const Tile& k,
                    const LeftBlock& x, const std::vector<Factors>& factors,
                    const std::vector<BlockSum>& sums) {
  const LeftTile x_tile = x(k);
  for (size_t i = 0; i < factors.size(); ++i) {
    c.b.loop("q", pass.ranks, tiles.Bu, [&](const Tile& q) {
      project_block(c, tiles, pass, k, q, x_tile, factors[i], sums[i]);
    });
  }
}

}  // namespace

std::vector<BlockSum> project_sums(const Context& c, int64_t K, const LowRankTiles& tiles,
                                   const Tile& m, const Tile& ranks, const LeftBlock& x,
                                   const std::vector<Factors>& factors, DType dtype) {
  const int64_t blocks = ceil_div(K, tiles.BK);
  const Shape shape = {kPartitions, ceil_div(ranks.size.max, kPartitions), m.size.max};
  const std::string_view name = dtype == c.dtype ? "strip" : "strip_sums";
  std::vector<BlockSum> sums;
  for (const Factors& pair : factors) {
    sums.emplace_back(c, fmt::format("{}{}", pair.prefix, name), dtype, shape, 1, blocks);
    sums.back().start("rt", ranks, m);
  }
  const Pass pass{m, ranks};
  const auto k_block = [&](const Tile& k) { project_blocks(c, tiles, pass, k, x, factors, sums); };
  if (is_tiled(c, factors.front().u)) {
    loop_blocks(c.b, "k", whole(K), tiles.BK, k_block);
  } else {
    c.b.loop("k", K, tiles.BK, k_block, Iterations::kCarried);
  }
  return sums;
}

// If one pass holds all ranks and its sums already have the strip's dtype, the sums become the
// strip in place. With several passes, only the sums of one pass at a time are in fp32.
std::vector<BufferId> project(const Context& c, int64_t K, const LowRankTiles& tiles, const Tile& m,
                              const Tile& ranks, const LeftBlock& x,
                              const std::vector<Factors>& factors) {
  const DType dtype = BlockSum::dtype_for(c, ceil_div(K, tiles.BK));
  std::vector<BufferId> strips;
  if (tiles.pass_ranks(ranks.size.max) >= ranks.size.max) {
    const Pass all{m, ranks};
    for (const BlockSum& sums : project_sums(c, K, tiles, m, ranks, x, factors, dtype)) {
      const bool rounded = c.b.dtype(sums.buffer()) == c.dtype;
      strips.push_back(rounded ? sums.buffer() : new_strip(c, m, ranks, factors[strips.size()]));
      if (!rounded) round_strip(c, all, ranks, sums, strips.back());
    }
    return strips;
  }
  for (const Factors& pair : factors) strips.push_back(new_strip(c, m, ranks, pair));
  c.b.loop("p", ranks, tiles.pass_ranks(ranks.size.max), [&](const Tile& p) {
    const Pass pass{m, p};
    const std::vector<BlockSum> sums = project_sums(c, K, tiles, m, p, x, factors, dtype);
    for (size_t i = 0; i < factors.size(); ++i) round_strip(c, pass, ranks, sums[i], strips[i]);
  });
  return strips;
}

namespace {

// Returns the share of the ranks that belongs to block k, if every block of K takes a share of
// `share` ranks.
Tile share_of(const Tile& ranks, int64_t share, const Tile& k) {
  const int64_t r = ranks.size.max;
  Tile tile{.start = k.index() * share, .size = {.max = share}, .step = share, .loop = k.loop};
  if (r % share != 0) tile.size = {.max = share, .limit = r, .origin = tile.start};
  return tile;
}

// Adds the pivot columns of some ranks to the sums. Pivots are not multiplied.
void add_pivots(const Context& c, const LeftOperand& x, const Pass& pass, const Tile& share,
                const BlockSum& sums) {
  const BufferId pivots = load_left(c, "pivots", x, share, pass.m, 2);
  c.b.loop("rt", share, kPartitions, [&](const Tile& rt) {
    sums.add({upto(rt), one(rt.index_in(pass.ranks)), upto(pass.m)},
             at(pivots, {upto(rt), one(rt.index()), upto(pass.m)}));
  });
}

// Loads a share of the pivots with every block of K, because loading all pivots at once would keep
// the DMA from loading the blocks. The last blocks may have no pivots left to load.
void project_with_pivots(const Context& c, int64_t K_rest, const LowRankTiles& tiles,
                         const Pass& pass, const LeftOperand& x, const LeftBlock& x_rest,
                         const Factors& d, const BlockSum& sums) {
  const int64_t blocks = ceil_div(K_rest, tiles.BK);
  const int64_t rank_tiles = ceil_div(pass.ranks.size.max, kPartitions);
  const int64_t share = ceil_div(rank_tiles, blocks) * kPartitions;
  const int64_t shares = ceil_div(pass.ranks.size.max, share);
  const int64_t with_share = std::min(shares * tiles.BK, K_rest);
  const auto block = [&](const Tile& k) { project_blocks(c, tiles, pass, k, x_rest, {d}, {sums}); };
  const auto block_with_share = [&](const Tile& k) {
    block(k);
    add_pivots(c, x, pass, share_of(pass.ranks, share, k), sums);
  };
  c.b.loop("k", with_share, tiles.BK, block_with_share, Iterations::kCarried);
  if (with_share == K_rest) return;
  const Tile blocks_without_pivots{.start = with_share, .size = {.max = K_rest - with_share}};
  c.b.loop("k", blocks_without_pivots, tiles.BK, block, Iterations::kCarried);
}

}  // namespace

// With one block of K the strip begins as the pivots, and the results are added when they leave
// PSUM. Otherwise the pivots are added to the sums.
//
// The pivoted form saves about half of stage one's products, but none of its loads. The matmuls
// would wait for a DMA that transposes all of X, so the Tensor engine transposes the columns that
// are not pivots.
BufferId project_pivots(const Context& c, int64_t K, const LowRankTiles& tiles, const Tile& m,
                        const Tile& ranks, const LeftOperand& x, const Factors& d) {
  const Pass pass{m, ranks};
  const int64_t K_rest = K - ranks.size.max, blocks = ceil_div(K_rest, tiles.BK);
  const LeftOperand by_tensor_engine{x.buffer, x.layout, TransposeBy::kTensorEngine};
  const LeftBlock columns = load_left_blocks(c, "x_block", by_tensor_engine, m, tiles.copies);
  const LeftBlock x_rest = [&](const Tile& k) { return columns(shifted(k, ranks.size.max)); };
  if (blocks == 1) {
    const BufferId strip = load_left(c, d.prefix + "strip", x, ranks, m, 1);
    c.b.loop("k", K_rest, tiles.BK, [&](const Tile& k) {
      project_blocks(c, tiles, pass, k, x_rest, {d}, {BlockSum::adding_to(c, strip)});
    });
    return strip;
  }
  const DType dtype = c.accumulate;
  const Shape shape = {kPartitions, ceil_div(ranks.size.max, kPartitions), m.size.max};
  const std::string_view name = dtype == c.dtype ? "strip" : "strip_sums";
  const BlockSum sums(c, fmt::format("{}{}", d.prefix, name), dtype, shape, 1, blocks);
  sums.start("rt", ranks, m);
  project_with_pivots(c, K_rest, tiles, pass, x, x_rest, d, sums);
  if (dtype == c.dtype) return sums.buffer();
  const BufferId strip = new_strip(c, m, ranks, d);
  round_strip(c, pass, ranks, sums, strip);
  return strip;
}

// Sums have the output's partitions first: the rows of Y, or of Y^T.
BlockSum output_sums(const Context& c, const OutputBlock& block, const std::string& prefix,
                     DType dtype, int64_t blocks) {
  const Tile& partitions = block.transposed ? block.n : block.m;
  const Tile& columns = block.transposed ? block.m : block.n;
  const Shape shape = {kPartitions, ceil_div(partitions.size.max, kPartitions), columns.size.max};
  BlockSum sums(c, prefix + "sums", dtype, shape, 1, blocks);
  sums.start(block.transposed ? "nt" : "mt", partitions, columns);
  return sums;
}

// The strip is stationary for Y and moves for Y^T. Everything else is equal.
void expand_block(const Context& c, const LowRankTiles& tiles, const OutputBlock& block,
                  const Tile& q, const Tile& ranks, const Factors& factors, BufferId strip,
                  const BlockSum& sums) {
  const Tile &m = block.m, &n = block.n;
  const BufferId v_block =
      load_factor(c, tiles, factors.v_block, factors.prefix + "v_block", factors.v, q, n);
  const tile::Step rows = block.transposed ? tiles.row_tile : tile::Step(kStationaryFree);
  const int64_t columns = block.transposed ? kStationaryFree : kMovingFree;
  c.b.loop("mt", m, rows, [&](const Tile& mt) {
    c.b.loop("nt", n, columns, [&](const Tile& nt) {
      const auto strip_tile = [&](const Tile& rt) {
        return at(strip, {upto(rt), one(rt.index_in(ranks)), mt.in(m)});
      };
      const auto v_tile = [&](const Tile& rt) {
        return at(v_block, {upto(rt), one(rt.index()), nt.in(n)});
      };
      const Access psum =
          block.transposed ? c.new_psum(upto(nt), upto(mt)) : c.new_psum(upto(mt), upto(nt));
      c.b.loop("rt", q, kPartitions, [&](const Tile& rt) {
        if (block.transposed) {
          c.b.matmul(psum, v_tile(rt), strip_tile(rt), {rt});
        } else {
          c.b.matmul(psum, strip_tile(rt), v_tile(rt), {rt});
        }
      });
      if (block.transposed) {
        sums.add({upto(nt), one(nt.index()), mt.in(m)}, psum);
      } else {
        sums.add({upto(mt), one(mt.index()), nt.in(n)}, psum);
      }
    });
  });
}

// Sums a block of Y over all blocks of ranks. If there is only one block, its results leave PSUM
// once.
BlockSum expand(const Context& c, const LowRankTiles& tiles, const OutputBlock& block,
                const Tile& ranks, const Factors& factors, BufferId strip, DType dtype) {
  const int64_t blocks = ceil_div(ranks.size.max, tiles.Br);
  BlockSum sums = output_sums(c, block, factors.prefix, dtype, blocks);
  const auto r_block = [&](const Tile& q) {
    expand_block(c, tiles, block, q, ranks, factors, strip, sums);
  };
  if (is_tiled(c, factors.v)) {
    loop_blocks(c.b, "q", ranks, tiles.Br, r_block);
  } else {
    c.b.loop("q", ranks, tiles.Br, r_block, Iterations::kCarried);
  }
  return sums;
}

// Rounds and stores the sums tile by tile.
void store_output(const Context& c, const OutputBlock& block, const BlockSum& sums, BufferId y) {
  const Tile &m = block.m, &n = block.n;
  if (block.transposed) {
    c.b.loop("nt", n, kPartitions, [&](const Tile& nt) {
      store_rounded(c, at(y, {nt, m}), sums({upto(nt), one(nt.index()), upto(m)}), nt, m);
    });
  } else {
    c.b.loop("mt", m, kPartitions, [&](const Tile& mt) {
      store_rounded(c, at(y, {mt, n}), sums({upto(mt), one(mt.index()), upto(n)}), mt, n);
    });
  }
}

}  // namespace neuronmm::kernels
