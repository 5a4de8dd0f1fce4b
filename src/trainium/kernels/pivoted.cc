#include "trainium/kernels/pivoted.h"

#include "trainium/kernels/description.h"

namespace neuronmm::kernels {

using tile::at;
using tile::BufferId;
using tile::Builder;
using tile::ceil_div;
using tile::one;
using tile::Program;
using tile::Tile;
using tile::upto;

// A row of Y takes the ranks of one block together, so that the store writes long rows.
void store_strip(const Context& c, const tile::Step& columns, const Tile& m, const Tile& ranks,
                 BufferId strip, BufferId y) {
  c.b.loop("p", ranks, columns, [&](const Tile& p) {
    c.b.loop("mt", m, kPartitions, [&](const Tile& mt) {
      const BufferId z_tile = c.b.sbuf("z_tile", c.dtype, {kPartitions, p.size.max}, 2);
      c.b.loop("rt", p, kPartitions, [&](const Tile& rt) {
        c.b.allocate(c.transposed);
        const tile::Access transposed = at(c.transposed, {upto(mt), upto(rt)});
        c.b.transpose(transposed, at(strip, {upto(rt), one(rt.index_in(ranks)), mt.in(m)}));
        c.b.copy(at(z_tile, {upto(mt), rt.in(p)}), transposed);
      });
      c.b.store(at(y, {mt, p}), at(z_tile, {upto(mt), upto(p)}));
    });
  });
}

namespace {

LeftOperand declare_x(Builder& b, const KernelShape& shape, const Tiling& tiling, DType dtype,
                      Layout layout) {
  const bool natural = layout == Layout::kNatural;
  const Shape size = natural ? Shape{shape.M, shape.K} : Shape{shape.K, shape.M};
  return {b.input("x", dtype, size), layout, transpose_by(tiling)};
}

Program output_pivots(std::string_view name, Layout x_layout, const KernelShape& shape,
                      const Tiling& tiling, const KernelOptions& options) {
  Builder b(name);
  const LeftOperand x = declare_x(b, shape, tiling, options.dtype, x_layout);
  const Factors factors{.u = b.input("a", options.dtype, {shape.K, shape.r}),
                        .v = b.input("c", options.dtype, {shape.r, shape.N - shape.r}),
                        .prefix = ""};
  const BufferId y = b.output("y", options.dtype, {shape.M, shape.N});
  const Context c(b, options, true);
  const LowRankTiles tiles = low_rank_tiles(tiling, kStationaryFree, kMovingFree);
  const DType sums_dtype = BlockSum::dtype_for(c, ceil_div(shape.r, tiles.Br));
  const Tile ranks = whole(shape.r);
  b.loop("m", shape.M, tiles.BM, [&](const Tile& m) {
    const LeftBlock blocks = load_left_blocks(c, "x_block", x, m, tiles.copies);
    const BufferId strip = project(c, shape.K, tiles, m, ranks, blocks, {factors}).front();
    store_strip(c, tiles.BN, m, ranks, strip, y);
    b.loop("n", shape.N - shape.r, tiles.BN, [&](const Tile& n) {
      const BlockSum sums = expand(c, tiles, {m, n, false}, ranks, factors, strip, sums_dtype);
      store_output(c, {m, shifted(n, shape.r), false}, sums, y);
    });
  });
  return b.finish();
}

Program input_pivots(std::string_view name, Layout x_layout, const KernelShape& shape,
                     const Tiling& tiling, const KernelOptions& options) {
  Builder b(name);
  const LeftOperand x = declare_x(b, shape, tiling, options.dtype, x_layout);
  const Factors factors{.u = b.input("d", options.dtype, {shape.K - shape.r, shape.r}),
                        .v = b.input("a", options.dtype, {shape.r, shape.N}),
                        .prefix = ""};
  const BufferId y = b.output("y", options.dtype, {shape.M, shape.N});
  const Context c(b, options, x_layout == Layout::kNatural);
  const LowRankTiles tiles = low_rank_tiles(tiling, kStationaryFree, kMovingFree);
  const DType sums_dtype = BlockSum::dtype_for(c, ceil_div(shape.r, tiles.Br));
  const Tile ranks = whole(shape.r);
  b.loop("m", shape.M, tiles.BM, [&](const Tile& m) {
    const BufferId strip = project_pivots(c, shape.K, tiles, m, ranks, x, factors);
    b.loop("n", shape.N, tiles.BN, [&](const Tile& n) {
      const OutputBlock block{m, n, false};
      store_output(c, block, expand(c, tiles, block, ranks, factors, strip, sums_dtype), y);
    });
  });
  return b.finish();
}

}  // namespace

Program xuv_pivoted(const KernelShape& shape, const Tiling& tiling, const KernelOptions& options) {
  return input_pivots("xuv_pivoted", Layout::kNatural, shape, tiling, options);
}
Program xtuv_pivoted(const KernelShape& shape, const Tiling& tiling, const KernelOptions& options) {
  return input_pivots("xtuv_pivoted", Layout::kTransposed, shape, tiling, options);
}
Program xuv_pivoted_out(const KernelShape& shape, const Tiling& tiling,
                        const KernelOptions& options) {
  return output_pivots("xuv_pivoted_out", Layout::kNatural, shape, tiling, options);
}
Program xtuv_pivoted_out(const KernelShape& shape, const Tiling& tiling,
                         const KernelOptions& options) {
  return output_pivots("xtuv_pivoted_out", Layout::kTransposed, shape, tiling, options);
}

namespace {

using tile::HbmRole;

constexpr std::string_view kPivotedFlops = "2·M·r·(K + N - r)";

// Blocks of X and D cover the columns without pivots. One pass sees all pivots.
std::vector<TilingParameter> input_pivots_tiling(MatrixLayout x) {
  std::vector<TilingParameter> all = chain_tiling(Layout::kNatural);
  std::erase_if(all, [](const TilingParameter& p) { return p.name == "passes"; });
  for (TilingParameter& p : all) {
    if (p.dimension == 'K') p.dimension = 'k';
  }
  if (!x.transposed()) all.push_back(transpose_parameter());
  return all;
}

// Blocks of C cover the columns without pivots.
std::vector<TilingParameter> output_pivots_tiling(MatrixLayout x) {
  std::vector<TilingParameter> all = chain_tiling(Layout::kNatural);
  for (TilingParameter& p : all) {
    if (p.dimension == 'N') p.dimension = 'n';
  }
  if (!x.transposed()) all.push_back(transpose_parameter());
  return all;
}

using Make = Program (*)(const KernelShape&, const Tiling&, const KernelOptions&);

Kernel input_pivots_kernel(std::string_view name, std::string_view description, MatrixLayout x,
                           Make make) {
  return {.name = name,
          .description = description,
          .formula = product(product_added_to(first_columns(operand("x"), 'r'),
                                              other_columns(operand("x"), 'r'), "d", "BK"),
                             "a", "Br"),
          .operands = {{.name = "x", .layout = x, .role = HbmRole::kInput},
                       {.name = "d", .layout = {'k', 'r'}, .role = HbmRole::kInput},
                       {.name = "a", .layout = {'r', 'N'}, .role = HbmRole::kInput},
                       {.name = "y", .layout = {'M', 'N'}, .role = HbmRole::kOutput}},
          .dimensions = "MKrN",
          .tiling = input_pivots_tiling(x),
          .steps = chain_steps(),
          .hbm_bytes = "s·(M·K + ⌈M/BM⌉·r·(K + N - r) + M·N)",
          .flops = kPivotedFlops,
          .nc_matmuls = "⌈r/128⌉·(⌈M/row tile⌉·⌈(K - r)/128⌉ + ⌈M/128⌉·⌈N/512⌉)",
          .make = make,
          .cost = xuv_pivoted_cost};
}

Kernel output_pivots_kernel(std::string_view name, std::string_view description, MatrixLayout x,
                            Make make) {
  return {.name = name,
          .description = description,
          .formula = with_product_appended(product(operand("x"), "a", "BK"), "c", "Br"),
          .operands = {{.name = "x", .layout = x, .role = HbmRole::kInput},
                       {.name = "a", .layout = {'K', 'r'}, .role = HbmRole::kInput},
                       {.name = "c", .layout = {'r', 'n'}, .role = HbmRole::kInput},
                       {.name = "y", .layout = {'M', 'N'}, .role = HbmRole::kOutput}},
          .dimensions = "MKrN",
          .tiling = output_pivots_tiling(x),
          .steps = chain_steps(),
          .hbm_bytes = "s·(P·M·K + ⌈M/BM⌉·r·(K + N - r) + M·N)",
          .flops = kPivotedFlops,
          .nc_matmuls = "⌈r/128⌉·(⌈M/row tile⌉·⌈K/128⌉ + ⌈M/128⌉·⌈(N - r)/512⌉)",
          .make = make,
          .cost = xuv_pivoted_out_cost};
}

}  // namespace

std::vector<Kernel> pivoted_kernels() {
  std::vector<Kernel> all;
  all.push_back(input_pivots_kernel("xuv_pivoted",
                                    "Y = (X_P + X_rest·D)·A fused, the r pivots first in X; X is "
                                    "transposed while it loads",
                                    {'M', 'K'}, xuv_pivoted));
  all.push_back(input_pivots_kernel("xtuv_pivoted",
                                    "Y = (X_P + X_rest·D)·A fused, the r pivots first, from X^T",
                                    {'K', 'M'}, xtuv_pivoted));
  all.push_back(output_pivots_kernel(
      "xuv_pivoted_out",
      "Y = [Z, Z·C] with Z = X·A fused, the r pivots first in Y; X is transposed while it loads",
      {'M', 'K'}, xuv_pivoted_out));
  all.push_back(output_pivots_kernel("xtuv_pivoted_out",
                                     "Y = [Z, Z·C] with Z = X·A fused, from X^T", {'K', 'M'},
                                     xtuv_pivoted_out));
  return all;
}

}  // namespace neuronmm::kernels
