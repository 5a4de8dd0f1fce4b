#include "trainium/kernels/contiguous.h"

#include <fmt/format.h>

namespace neuronmm::kernels {

using tile::Access;
using tile::all;
using tile::at;
using tile::BufferId;
using tile::Builder;
using tile::one;
using tile::Tile;
using tile::upto;

TilingParameter contiguous_parameter() {
  return {
      .name = "contiguous",
      .value = 0,
      .meaning =
          "1: K in the order p * K/128 + j, which loads in long runs (M <= 128, K of whole tiles)",
      .least = 0,
      .most = 1,
      .search_values = {0, 1},
      .for_few_rows = true};
}

BufferId contiguous_view(Builder& b, std::string_view name, BufferId w, int64_t K, int64_t N) {
  return b.view(fmt::format("{}_view", name), w, {kPartitions, K / kPartitions, N});
}

BufferId tiled_rows(Builder& b, std::string_view name, BufferId w) {
  if (b.buffer(w).shape[0] < kPartitions) return w;
  return b.row_tiles(fmt::format("{}_tiles", name), w);
}

Factors contiguous_factors(Builder& b, Factors factors, const ContiguousNames& names, int64_t K,
                           int64_t r) {
  factors.u = contiguous_view(b, names.u, factors.u, K, r);
  factors.v = tiled_rows(b, names.v, factors.v);
  return factors;
}

bool loads_contiguously(const LowRankTiles& tiles, int64_t M, int64_t K) {
  return tiles.contiguous && M <= kPartitions && K % kPartitions == 0;
}

bool ends_in_few_rows(const LowRankTiles& tiles, int64_t M, int64_t K, int64_t ranks) {
  return loads_contiguously(tiles, M, K) && ranks >= kPartitions;
}

// More rows than this take longer to load one by one than to transpose (assumed).
bool transposes_contiguous_rows(int64_t M) { return M > 8; }

namespace {

// Loads each row by itself. The elements of a row that go to one partition are adjacent on both
// sides, so they are one descriptor.
LeftBlock load_rows(const Context& c, BufferId view, int64_t tiles, const Tile& contraction,
                    const Tile& m) {
  const BufferId strip = c.b.sbuf("x_strip", c.dtype, {kPartitions, m.size.max, tiles});
  c.b.loop("row", m, 1, [&](const Tile& row) {
    c.b.load(at(strip, {all(kPartitions), one(row.index()), all(tiles)}),
             at(view, {one(row.start), all(kPartitions), all(tiles)}));
  });
  return [=](const Tile&) -> LeftTile {
    return [=](const Tile& kt, const Tile& mt) {
      return at(strip, {upto(kt), mt.in(m), one(kt.index_in(contraction))});
    };
  };
}

}  // namespace

LeftBlock load_left_contiguous(const Context& c, BufferId x, int64_t M, int64_t K, const Tile& m) {
  const int64_t tiles = K / kPartitions;
  const BufferId view = c.b.view("x_view", x, {M, kPartitions, tiles});
  if (!transposes_contiguous_rows(M)) return load_rows(c, view, tiles, whole(K), m);
  const BufferId strip = c.b.sbuf("x_strip", c.dtype, {kPartitions, tiles, m.size.max});
  const BufferId rows = c.b.sbuf("x_rows", c.dtype, {kPartitions, kPartitions, tiles});
  c.b.load(at(rows, {upto(m), all(kPartitions), all(tiles)}),
           at(view, {m, all(kPartitions), all(tiles)}));
  c.b.loop("j", tiles, 1, [&](const Tile& j) {
    c.b.allocate(c.transposed);
    const Access transposed = at(c.transposed, {all(kPartitions), upto(m)});
    c.b.transpose(transposed, at(rows, {upto(m), all(kPartitions), one(j.start)}));
    c.b.copy(at(strip, {all(kPartitions), one(j.start), upto(m)}), transposed);
  });
  return strip_in_sbuf(strip, whole(K), m);
}

}  // namespace neuronmm::kernels
