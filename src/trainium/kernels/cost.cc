#include "trainium/kernels/cost.h"

#include "trainium/kernels/contiguous.h"
#include "trainium/kernels/dense_mlp.h"
#include "trainium/kernels/few_rows.h"
#include "trainium/kernels/low_rank.h"
#include "trainium/kernels/narrow_mlp.h"

namespace neuronmm::kernels {

using tile::ceil_div;

// Kernels that run one after the other.
Cost operator+(const Cost& a, const Cost& b) {
  return {a.hbm_read_bytes + b.hbm_read_bytes, a.hbm_write_bytes + b.hbm_write_bytes,
          a.flops + b.flops, a.nc_matmuls + b.nc_matmuls};
}

namespace {

// A plain matmul that reads X `x_loads` times and W `w_loads` times.
Cost matmul_cost(const KernelShape& p, const KernelOptions& options, int64_t x_loads,
                 int64_t w_loads) {
  const int64_t s = dtype_size_bytes(options.dtype);
  return {.hbm_read_bytes = s * (p.M * p.K * x_loads + p.K * p.N * w_loads),
          .hbm_write_bytes = s * p.M * p.N,
          .flops = 2 * p.M * p.K * p.N,
          .nc_matmuls = ceil_div(p.M, 128) * ceil_div(p.K, 128) * ceil_div(p.N, 512)};
}

// One fused chain: X [M, K] once per pass, U and V once per row block.
struct Chain {
  int64_t s, M, K, r, N;
  LowRankTiles tiles;
  bool transposed;
  bool few_rows = false;  // few_rows.h ends it

  int64_t row_blocks() const { return ceil_div(M, tiles.BM); }
  // A pass keeps the strip of so many ranks on the chip; more ranks than that need X once more,
  // unless all of X^T is there.
  int64_t x_bytes() const {
    return s * M * K * (loads_contiguously(tiles, M, K) ? 1 : ceil_div(r, tiles.pass_ranks(r)));
  }
  // The factors stay for one block of rows and are read again for the next.
  int64_t weight_bytes() const { return s * row_blocks() * r * (K + N); }
  int64_t y_bytes() const { return s * M * N; }
  // Multiplications and additions of X·U [M, r] and of the strip times V [M, N].
  int64_t flops() const { return 2 * M * r * (K + N); }
  int64_t project_matmuls() const {
    return ceil_div(M, tiles.row_tile) * ceil_div(K, 128) * ceil_div(r, 128);
  }
  int64_t expand_matmuls() const {
    if (few_rows) return few_rows_matmuls(tiles, M, N, r);
    const int64_t tiles_of_y = transposed ? ceil_div(M, tiles.row_tile) * ceil_div(N, 128)
                                          : ceil_div(M, 128) * ceil_div(N, 512);
    return tiles_of_y * ceil_div(r, 128);
  }
  int64_t matmuls() const { return project_matmuls() + expand_matmuls(); }
};

// Rows stream (512 at a time) where the output is transposed; elsewhere they are stationary (128).
Chain chain(const KernelShape& p, const Tiling& tiling, const KernelOptions& options,
            bool transposed) {
  return {dtype_size_bytes(options.dtype),
          p.M,
          p.K,
          p.r,
          p.N,
          transposed ? low_rank_tiles(tiling, kMovingFree, kStationaryFree)
                     : low_rank_tiles(tiling, kStationaryFree, kMovingFree),
          transposed};
}

// The operands, once per block that reads them, and Y once.
Cost fused_cost(const Chain& c) {
  return {.hbm_read_bytes = c.x_bytes() + c.weight_bytes(),
          .hbm_write_bytes = c.y_bytes(),
          .flops = c.flops(),
          .nc_matmuls = c.matmuls()};
}

// Two chains that share X.
Cost up_cost(const Chain& c) {
  return {.hbm_read_bytes = c.x_bytes() + 2 * c.weight_bytes(),
          .hbm_write_bytes = c.y_bytes(),
          .flops = 2 * c.flops(),
          .nc_matmuls = 2 * c.matmuls()};
}

}  // namespace

// Every tile of X is read for each of the column tiles, and every tile of W for each of the row
// tiles.
Cost matmul_tiled_cost(const KernelShape& p, const Tiling&, const KernelOptions& options) {
  return matmul_cost(p, options, ceil_div(p.N, 512), ceil_div(p.M, 128));
}
// Rows of X stay while all of W goes by.
Cost matmul_hoisted_cost(const KernelShape& p, const Tiling&, const KernelOptions& options) {
  return matmul_cost(p, options, 1, ceil_div(p.M, 128));
}
// The same with blocks of rows: W goes by less often.
Cost matmul_blocked_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  return matmul_cost(p, options, 1, ceil_div(p.M, tiling["BM"] * 128));
}
// W is read once; X once per block of columns.
Cost matmul_optimized_cost(const KernelShape& p, const Tiling& tiling,
                           const KernelOptions& options) {
  return matmul_cost(p, options, ceil_div(p.N, tiling["BN"] * 512), 1);
}
// Both are read once per block of the other.
Cost matmul_fixed_order_cost(const KernelShape& p, const Tiling& tiling,
                             const KernelOptions& options) {
  return matmul_cost(p, options, ceil_div(p.N, tiling["BN"] * 512),
                     ceil_div(p.M, tiling["BM"] * 128));
}

// Y and its transpose: they differ in which operand of the matmuls streams.
Cost xuv_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  Chain c = chain(p, tiling, options, false);
  c.few_rows = ends_in_few_rows(c.tiles, p.M, p.K, p.r);
  return fused_cost(c);
}
Cost xuv_transposed_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  return fused_cost(chain(p, tiling, options, true));
}

// Two matmuls and, between them, the transposition of X·U through HBM: read once and written once
// more.
Cost xuv_sequential_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  const KernelShape first{.M = p.M, .K = p.K, .r = 0, .N = p.r};
  const KernelShape second{.M = p.M, .K = p.r, .r = 0, .N = p.N};
  const int64_t xu_bytes = dtype_size_bytes(options.dtype) * p.M * p.r;
  return matmul_optimized_cost(first, tiling, options) +
         Cost{.hbm_read_bytes = xu_bytes, .hbm_write_bytes = xu_bytes} +
         matmul_optimized_cost(second, tiling, options);
}

// The strip is computed again for every block of columns, which is what fusing without keeping it
// costs.
Cost xuv_naive_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  const Chain c = chain(p, tiling, options, false);
  const int64_t column_blocks = ceil_div(p.N, c.tiles.BN), rank_blocks = ceil_div(p.r, c.tiles.Br);
  return {.hbm_read_bytes = column_blocks * rank_blocks * c.x_bytes() +
                            c.s * c.row_blocks() * p.r * (column_blocks * p.K + p.N),
          .hbm_write_bytes = c.y_bytes(),
          .flops = 2 * p.M * p.r * (column_blocks * p.K + p.N),
          .nc_matmuls = column_blocks * c.project_matmuls() + c.expand_matmuls()};
}

// X without its pivots goes through D as through a U of K - r rows; the pivots are read once.
Cost xuv_pivoted_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  KernelShape others = p;
  others.K = p.K - p.r;
  const Chain c = chain(others, tiling, options, false);
  return fused_cost(c) + Cost{.hbm_read_bytes = c.s * p.M * p.r};
}

// C, as a V of N - r columns, makes what the strip is not already.
Cost xuv_pivoted_out_cost(const KernelShape& p, const Tiling& tiling,
                          const KernelOptions& options) {
  KernelShape others = p;
  others.N = p.N - p.r;
  const Chain c = chain(others, tiling, options, false);
  return fused_cost(c) + Cost{.hbm_write_bytes = c.s * p.M * p.r};
}

// Silu and the product of gate and up happen on the way out of PSUM and move nothing over HBM.
Cost mlp_up_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  return up_cost(chain(p, tiling, options, true));
}

// Three weights of K x N are read once per block of rows; H stays on the chip.
Cost dense_mlp_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  const int64_t s = dtype_size_bytes(options.dtype);
  const LowRankTiles tiles = dense_mlp_tiles(tiling).up;
  const int64_t hidden_tiles = ceil_div(p.N, 128);
  const int64_t down = ends_in_few_rows(tiles, p.M, p.K, p.N)
                           ? few_rows_matmuls(dense_mlp_tiles(tiling).down, p.M, p.K, p.N)
                           : hidden_tiles * ceil_div(p.M, 128) * ceil_div(p.K, 512);
  return {
      .hbm_read_bytes = s * (p.M * p.K + 3 * ceil_div(p.M, tiles.BM) * p.K * p.N),
      .hbm_write_bytes = s * p.M * p.K,
      .flops = 6 * p.M * p.K * p.N,
      .nc_matmuls = hidden_tiles * 2 * ceil_div(p.M, tiles.row_tile) * ceil_div(p.K, 128) + down};
}

namespace {

// `width_in` columns go into gate and up, `width_out` come out of down; what is less than K is
// narrow, and has a D or a C. Of X and of D there are `copies`.
Cost narrow_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options,
                 int64_t width_in, int64_t width_out, int64_t copies = 1) {
  const int64_t s = dtype_size_bytes(options.dtype);
  const LowRankTiles tiles = narrow_mlp_tiles(tiling).up;
  const int64_t rest_in = p.K - width_in, rest_out = p.K - width_out;
  const int64_t weights =
      copies * width_in * rest_in + p.N * (2 * width_in + width_out) + width_out * rest_out;
  const int64_t streams = ceil_div(p.M, tiles.row_tile), rows = ceil_div(p.M, 128);
  const int64_t in = ceil_div(width_in, 128), out = ceil_div(width_out, 128);
  const int64_t hidden = ceil_div(p.N, 128);
  const int64_t down = rest_out > 0 ? streams * hidden * out : rows * hidden * ceil_div(p.K, 512);
  return {.hbm_read_bytes = s * (copies * p.M * p.K + ceil_div(p.M, tiles.BM) * weights),
          .hbm_write_bytes = s * p.M * p.K,
          .flops = 2 * p.M * weights,
          .nc_matmuls = streams * in * (copies * ceil_div(rest_in, 128) + 2 * hidden) + down +
                        rows * out * ceil_div(rest_out, 512)};
}

}  // namespace

Cost narrow_mlp_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  return narrow_cost(p, tiling, options, p.r, p.s);
}
Cost narrow_mlp_in_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  return narrow_cost(p, tiling, options, p.r, p.K);
}
Cost narrow_mlp_out_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  return narrow_cost(p, tiling, options, p.K, p.s);
}

Cost pivoted_mlp_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  return narrow_cost(p, tiling, options, p.r, p.s, 2);
}
Cost pivoted_mlp_in_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  return narrow_cost(p, tiling, options, p.r, p.K, 2);
}

Cost mlp_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  const int64_t s = dtype_size_bytes(options.dtype);
  const bool on_chip = tiling["h_on_chip"] != 0;
  const Chain up{
      s, p.M, p.K, p.r, p.N, low_rank_tiles(tiling, kMovingFree, kStationaryFree, "up."), true};
  Chain down{
      s, p.M, p.N, p.r, p.K, low_rank_tiles(tiling, kStationaryFree, kMovingFree, "down."), false};
  down.few_rows = ends_in_few_rows(up.tiles, p.M, p.K, p.r);
  // With H on the chip both halves have the rows of the first one, and H is neither written nor
  // read.
  if (on_chip) {
    down.tiles.BM = up.tiles.BM;
    down.tiles.row_tile = up.tiles.row_tile;
  }
  Cost cost = up_cost(up) + fused_cost(down);
  if (on_chip) {
    cost.hbm_write_bytes -= up.y_bytes();
    cost.hbm_read_bytes -= down.x_bytes();
  }
  return cost;
}

}  // namespace neuronmm::kernels
