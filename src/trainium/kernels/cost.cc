#include "trainium/kernels/cost.h"

#include "trainium/kernels/contiguous.h"
#include "trainium/kernels/dense_mlp.h"
#include "trainium/kernels/few_rows.h"
#include "trainium/kernels/low_rank.h"
#include "trainium/kernels/narrow_mlp.h"

namespace neuronmm::kernels {

using tile::ceil_div;

// Adds the costs of kernels that run one after the other.
Cost operator+(const Cost& a, const Cost& b) {
  return {a.hbm_read_bytes + b.hbm_read_bytes, a.hbm_write_bytes + b.hbm_write_bytes,
          a.flops + b.flops, a.nc_matmuls + b.nc_matmuls};
}

namespace {

// Returns the cost of a plain matmul that reads X `x_loads` times and W `w_loads` times.
Cost matmul_cost(const KernelShape& p, const KernelOptions& options, int64_t x_loads,
                 int64_t w_loads) {
  const int64_t s = dtype_size_bytes(options.dtype);
  return {.hbm_read_bytes = s * (p.M * p.K * x_loads + p.K * p.N * w_loads),
          .hbm_write_bytes = s * p.M * p.N,
          .flops = 2 * p.M * p.K * p.N,
          .nc_matmuls = ceil_div(p.M, 128) * ceil_div(p.K, 128) * ceil_div(p.N, 512)};
}

// A fused chain. It reads X [M, K] once per pass, and U and V once per row block.
struct Chain {
  int64_t s, M, K, r, N;
  LowRankTiles tiles;
  bool transposed;
  bool few_rows = false;  // True if few_rows.h computes Y.

  int64_t row_blocks() const { return ceil_div(M, tiles.BM); }
  // A pass keeps the strip of a share of the ranks on the chip. Each further pass reads X again,
  // unless all of X^T is in SBUF.
  int64_t x_bytes() const {
    return s * M * K * (loads_contiguously(tiles, M, K) ? 1 : ceil_div(r, tiles.pass_ranks(r)));
  }
  // The factors stay in SBUF for one block of rows and are read again for the next.
  int64_t weight_bytes() const { return s * row_blocks() * r * (K + N); }
  int64_t y_bytes() const { return s * M * N; }
  // Counts the multiplications and additions of X·U [M, r] and of the strip times V [M, N].
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

// Makes the chain of one shape. Rows stream (512 at a time) if the output is transposed; otherwise
// they are stationary (128).
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

// Counts the operands once per block that reads them, and Y once.
Cost fused_cost(const Chain& c) {
  return {.hbm_read_bytes = c.x_bytes() + c.weight_bytes(),
          .hbm_write_bytes = c.y_bytes(),
          .flops = c.flops(),
          .nc_matmuls = c.matmuls()};
}

// Returns the cost of two chains that share X.
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
// Rows of X stay in SBUF while all of W is loaded for them.
Cost matmul_hoisted_cost(const KernelShape& p, const Tiling&, const KernelOptions& options) {
  return matmul_cost(p, options, 1, ceil_div(p.M, 128));
}
// With blocks of rows, W is read less often.
Cost matmul_blocked_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  return matmul_cost(p, options, 1, ceil_div(p.M, tiling["BM"] * 128));
}
// W is read once, and X is read once per block of columns.
Cost matmul_optimized_cost(const KernelShape& p, const Tiling& tiling,
                           const KernelOptions& options) {
  return matmul_cost(p, options, ceil_div(p.N, tiling["BN"] * 512), 1);
}
// X is read once per block of columns, and W once per block of rows.
Cost matmul_fixed_order_cost(const KernelShape& p, const Tiling& tiling,
                             const KernelOptions& options) {
  return matmul_cost(p, options, ceil_div(p.N, tiling["BN"] * 512),
                     ceil_div(p.M, tiling["BM"] * 128));
}

// The costs of Y and of Y^T differ in which operand of the matmuls streams.
Cost xuv_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  Chain c = chain(p, tiling, options, false);
  c.few_rows = ends_in_few_rows(c.tiles, p.M, p.K, p.r);
  return fused_cost(c);
}
Cost xuv_transposed_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  return fused_cost(chain(p, tiling, options, true));
}

// The kernel runs two matmuls. The transposition of X·U between them reads X·U from HBM and writes
// it once more.
Cost xuv_sequential_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  const KernelShape first{.M = p.M, .K = p.K, .r = 0, .N = p.r};
  const KernelShape second{.M = p.M, .K = p.r, .r = 0, .N = p.N};
  const int64_t xu_bytes = dtype_size_bytes(options.dtype) * p.M * p.r;
  return matmul_optimized_cost(first, tiling, options) +
         Cost{.hbm_read_bytes = xu_bytes, .hbm_write_bytes = xu_bytes} +
         matmul_optimized_cost(second, tiling, options);
}

// The strip is computed again for every block of columns.
Cost xuv_naive_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  const Chain c = chain(p, tiling, options, false);
  const int64_t column_blocks = ceil_div(p.N, c.tiles.BN), rank_blocks = ceil_div(p.r, c.tiles.Br);
  return {.hbm_read_bytes = column_blocks * rank_blocks * c.x_bytes() +
                            c.s * c.row_blocks() * p.r * (column_blocks * p.K + p.N),
          .hbm_write_bytes = c.y_bytes(),
          .flops = 2 * p.M * p.r * (column_blocks * p.K + p.N),
          .nc_matmuls = column_blocks * c.project_matmuls() + c.expand_matmuls()};
}

// D acts as a U with K - r rows on the columns of X that are not pivots. The pivots are read once.
Cost xuv_pivoted_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  KernelShape others = p;
  others.K = p.K - p.r;
  const Chain c = chain(others, tiling, options, false);
  return fused_cost(c) + Cost{.hbm_read_bytes = c.s * p.M * p.r};
}

// C acts as a V with N - r columns. The other r columns of Y are the strip.
Cost xuv_pivoted_out_cost(const KernelShape& p, const Tiling& tiling,
                          const KernelOptions& options) {
  KernelShape others = p;
  others.N = p.N - p.r;
  const Chain c = chain(others, tiling, options, false);
  return fused_cost(c) + Cost{.hbm_write_bytes = c.s * p.M * p.r};
}

// Silu and the product of gate and up are computed when results leave PSUM, and move nothing over
// HBM.
Cost mlp_up_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  return up_cost(chain(p, tiling, options, true));
}

// Three weights of K x N are read once per block of rows, and H stays on the chip.
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

// Returns the cost of a layer whose gate and up read `width_in` columns and whose down writes
// `width_out`. An end with less than K columns is narrow and has a D or a C. `copies` is the number
// of copies of X and of D.
Cost narrow_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options,
                 int64_t width_in, int64_t width_out, int64_t copies = 1) {
  const int64_t s = dtype_size_bytes(options.dtype);
  const LowRankTiles tiles = narrow_mlp_tiles(tiling).up;
  const int64_t d_rows = p.K - width_in, c_columns = p.K - width_out;
  const int64_t weights =
      copies * width_in * d_rows + p.N * (2 * width_in + width_out) + width_out * c_columns;
  const int64_t row_tiles = ceil_div(p.M, tiles.row_tile), rows = ceil_div(p.M, 128);
  const int64_t in = ceil_div(width_in, 128), out = ceil_div(width_out, 128);
  const int64_t hidden = ceil_div(p.N, 128);
  const int64_t down =
      c_columns > 0 ? row_tiles * hidden * out : rows * hidden * ceil_div(p.K, 512);
  return {.hbm_read_bytes = s * (copies * p.M * p.K + ceil_div(p.M, tiles.BM) * weights),
          .hbm_write_bytes = s * p.M * p.K,
          .flops = 2 * p.M * weights,
          .nc_matmuls = row_tiles * in * (copies * ceil_div(d_rows, 128) + 2 * hidden) + down +
                        rows * out * ceil_div(c_columns, 512)};
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

namespace {

// The numbers of the chosen experts and the shares of their outputs, of 4 bytes each, and X and Y,
// all read or written once.
Cost moe_tokens_cost(const KernelShape& p, const KernelOptions& options) {
  const int64_t s = dtype_size_bytes(options.dtype);
  return {.hbm_read_bytes = s * p.M * p.K + 4 * p.D * (p.M + 1), .hbm_write_bytes = s * p.M * p.K};
}

// Weights of `elements` elements per expert, read once for each distinct chosen expert, and
// multiplied with all tokens, also those that have not chosen it.
Cost moe_experts_cost(const KernelShape& p, const KernelOptions& options, int64_t elements,
                      int64_t nc_matmuls) {
  return {.hbm_read_bytes = dtype_size_bytes(options.dtype) * p.D * elements,
          .flops = 2 * p.M * p.D * elements,
          .nc_matmuls = p.D * nc_matmuls};
}

}  // namespace

Cost dense_moe_mlp_cost(const KernelShape& p, const Tiling&, const KernelOptions& options) {
  const int64_t in = ceil_div(p.K, 128), hidden = ceil_div(p.N, 128), out = ceil_div(p.K, 512);
  return moe_tokens_cost(p, options) +
         moe_experts_cost(p, options, 3 * p.K * p.N, hidden * (2 * in + out));
}

Cost moe_mlp_cost(const KernelShape& p, const Tiling&, const KernelOptions& options) {
  const int64_t in = ceil_div(p.K, 128), hidden = ceil_div(p.N, 128), out = ceil_div(p.K, 512);
  const int64_t ranks = ceil_div(p.r, 128);
  return moe_tokens_cost(p, options) +
         moe_experts_cost(p, options, 3 * p.r * (p.K + p.N), ranks * (2 * in + 3 * hidden + out));
}

Cost mlp_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  const int64_t s = dtype_size_bytes(options.dtype);
  const bool h_on_chip = tiling["h_on_chip"] != 0;
  const Chain up{
      s, p.M, p.K, p.r, p.N, low_rank_tiles(tiling, kMovingFree, kStationaryFree, "up."), true};
  Chain down{
      s, p.M, p.N, p.r, p.K, low_rank_tiles(tiling, kStationaryFree, kMovingFree, "down."), false};
  down.few_rows = ends_in_few_rows(up.tiles, p.M, p.K, p.r);
  // With H on the chip, both halves have the row blocks of the first half, and H is neither written
  // nor read.
  if (h_on_chip) {
    down.tiles.BM = up.tiles.BM;
    down.tiles.row_tile = up.tiles.row_tile;
  }
  Cost cost = up_cost(up) + fused_cost(down);
  if (h_on_chip) {
    cost.hbm_write_bytes -= up.y_bytes();
    cost.hbm_read_bytes -= down.x_bytes();
  }
  return cost;
}

}  // namespace neuronmm::kernels
