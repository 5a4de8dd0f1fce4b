#include "trainium/kernels/xuv.h"

#include "trainium/kernels/contiguous.h"
#include "trainium/kernels/description.h"
#include "trainium/kernels/few_rows.h"
#include "trainium/kernels/low_rank.h"
#include "trainium/kernels/matmul.h"

namespace neuronmm::kernels {

using tile::at;
using tile::BufferId;
using tile::Builder;
using tile::one;
using tile::Program;
using tile::Tile;
using tile::upto;

namespace {

struct Operands {
  LeftOperand x;
  Factors factors;
};

Operands declare_inputs(Builder& b, const KernelShape& shape, DType dtype, Layout x_layout,
                        TransposeBy transpose = TransposeBy::kDma) {
  const bool natural = x_layout == Layout::kNatural;
  const Shape x = natural ? Shape{shape.M, shape.K} : Shape{shape.K, shape.M};
  return {.x = {b.input("x", dtype, x), x_layout, transpose},
          .factors = {b.input("u", dtype, {shape.K, shape.r}),
                      b.input("v", dtype, {shape.r, shape.N}), ""}};
}

// A row block goes through both stages before the next one starts, so its strip X·U stays in SBUF.
// The four kernels differ only in the layouts of X and Y.
Program fused(std::string_view name, Layout x_layout, Layout y_layout, const KernelShape& shape,
              const Tiling& tiling, const KernelOptions& options) {
  const bool transposed = y_layout == Layout::kTransposed;
  Builder b(name);
  const Operands in = declare_inputs(b, shape, options.dtype, x_layout, transpose_by(tiling));
  const BufferId y =
      b.output("y", options.dtype, transposed ? Shape{shape.N, shape.M} : Shape{shape.M, shape.N});
  const LowRankTiles tiles = transposed ? low_rank_tiles(tiling, kMovingFree, kStationaryFree)
                                        : low_rank_tiles(tiling, kStationaryFree, kMovingFree);
  const bool contiguous =
      x_layout == Layout::kNatural && loads_contiguously(tiles, shape.M, shape.K);
  const bool transposes =
      contiguous ? transposes_contiguous_rows(shape.M)
                 : transposes_on_tensor_engine(x_layout, in.x.transpose_by, options.dtype);
  const Context c(b, options, transposes);
  const DType sums_dtype = BlockSum::dtype_for(c, tile::ceil_div(shape.r, tiles.Br));
  const Tile ranks = whole(shape.r);
  Factors factors = in.factors;
  if (contiguous) factors = contiguous_factors(b, factors, {"u", "v"}, shape.K, shape.r);
  b.loop("m", shape.M, tiles.BM, [&](const Tile& m) {
    const LeftBlock x = contiguous ? load_left_contiguous(c, in.x.buffer, shape.M, shape.K, m)
                                   : load_left_blocks(c, "x_block", in.x, m, tiles.copies);
    const BufferId strip = project(c, shape.K, tiles, m, ranks, x, {factors}).front();
    if (!transposed && is_tiled(c, factors.v)) {
      return expand_few_rows(c, tiles, m, shape.N, ranks, factors, strip, y);
    }
    b.loop("n", shape.N, tiles.BN, [&](const Tile& n) {
      const OutputBlock block{m, n, transposed};
      store_output(c, block, expand(c, tiles, block, ranks, factors, strip, sums_dtype), y);
    });
  });
  return b.finish();
}

}  // namespace

Program xuv(const KernelShape& shape, const Tiling& tiling, const KernelOptions& options) {
  return fused("xuv", Layout::kNatural, Layout::kNatural, shape, tiling, options);
}
Program xtuv(const KernelShape& shape, const Tiling& tiling, const KernelOptions& options) {
  return fused("xtuv", Layout::kTransposed, Layout::kNatural, shape, tiling, options);
}
Program xuv_transposed(const KernelShape& shape, const Tiling& tiling,
                       const KernelOptions& options) {
  return fused("xuv_transposed", Layout::kNatural, Layout::kTransposed, shape, tiling, options);
}
Program xtuv_transposed(const KernelShape& shape, const Tiling& tiling,
                        const KernelOptions& options) {
  return fused("xtuv_transposed", Layout::kTransposed, Layout::kTransposed, shape, tiling, options);
}

namespace {

// Computes xu_t [r, M] = xu [M, r]^T on the Tensor engine, with both in HBM. The fused kernel does
// not need this pass.
void transpose(const Context& c, const KernelShape& shape, BufferId xu, BufferId xu_t) {
  c.b.loop("m", shape.M, 512, [&](const Tile& m) {
    c.b.loop("q", shape.r, 1024, [&](const Tile& q) {
      const LeftOperand natural{xu, Layout::kNatural, TransposeBy::kTensorEngine};
      const BufferId block = load_left(c, "xu_block", natural, q, m, 2);
      c.b.loop("rt", q, kPartitions, [&](const Tile& rt) {
        c.b.store(at(xu_t, {rt, m}), at(block, {upto(rt), one(rt.index()), upto(m)}));
      });
    });
  });
}

}  // namespace

// The paper's baseline has two tuned matmuls with X·U in HBM between them.
Program xuv_sequential(const KernelShape& shape, const Tiling& tiling,
                       const KernelOptions& options) {
  Builder b("xuv_sequential");
  const Operands in = declare_inputs(b, shape, options.dtype, Layout::kTransposed);
  const BufferId y = b.output("y", options.dtype, {shape.M, shape.N});
  const BufferId xu = b.scratch("xu", options.dtype, {shape.M, shape.r});
  const BufferId xu_t = b.scratch("xu_t", options.dtype, {shape.r, shape.M});
  const Context c(b, options, true);
  optimized_matmul(c, {.M = shape.M, .K = shape.K, .r = 0, .N = shape.r}, tiling,
                   {.x = {in.x.buffer, Layout::kTransposed}, .w = in.factors.u, .y = xu});
  transpose(c, shape, xu, xu_t);
  optimized_matmul(c, {.M = shape.M, .K = shape.r, .r = 0, .N = shape.N}, tiling,
                   {.x = {xu_t, Layout::kTransposed}, .w = in.factors.v, .y = y});
  return b.finish();
}

// The strip is computed again for each block of columns. The kernel shows how much keeping the
// strip saves.
Program xuv_naive(const KernelShape& shape, const Tiling& tiling, const KernelOptions& options) {
  Builder b("xuv_naive");
  const Operands in = declare_inputs(b, shape, options.dtype, Layout::kTransposed);
  const BufferId y = b.output("y", options.dtype, {shape.M, shape.N});
  const Context c(b, options);
  const LowRankTiles tiles = low_rank_tiles(tiling, kStationaryFree, kMovingFree);
  const int64_t blocks = tile::ceil_div(shape.r, tiles.Br);
  b.loop("m", shape.M, tiles.BM, [&](const Tile& m) {
    b.loop("n", shape.N, tiles.BN, [&](const Tile& n) {
      const OutputBlock block{m, n, false};
      const BlockSum sums = output_sums(c, block, "", BlockSum::dtype_for(c, blocks), blocks);
      // Every block of ranks computes its part of the strip and adds its part of Y, so no strip
      // outlives its block of columns.
      const auto r_block = [&](const Tile& q) {
        const LeftBlock x = load_left_blocks(c, "x_block", in.x, m, tiles.copies);
        const BufferId strip = project(c, shape.K, tiles, m, q, x, {in.factors}).front();
        expand_block(c, tiles, block, q, q, in.factors, strip, sums);
      };
      b.loop("q", shape.r, tiles.Br, r_block, Builder::Iterations::kCarried);
      store_output(c, block, sums, y);
    });
  });
  return b.finish();
}

namespace {

using tile::HbmRole;

// X and Y have tokens as rows or as columns. The factors are equal for all kernels.
std::vector<OperandDescription> chain_operands(MatrixLayout x, MatrixLayout y) {
  return {{.name = "x", .layout = x, .role = HbmRole::kInput},
          {.name = "u", .layout = {'K', 'r'}, .role = HbmRole::kInput},
          {.name = "v", .layout = {'r', 'N'}, .role = HbmRole::kInput},
          {.name = "y", .layout = y, .role = HbmRole::kOutput}};
}

// Returns X·U·V. `v_block` names the parameter for the blocks in which the ranks are summed.
Formula xuv_formula(std::string_view v_block) {
  return chain(operand("x"), {.u = "u", .v = "v", .u_block = "BK", .v_block = v_block});
}

constexpr std::string_view kBytes = "s·(P·M·K + ⌈M/BM⌉·r·(K + N) + M·N)";
constexpr std::string_view kChainFlops = "2·M·r·(K + N)";
constexpr std::string_view kChainMatmuls = "⌈r/128⌉·(⌈M/row tile⌉·⌈K/128⌉ + ⌈M/128⌉·⌈N/512⌉)";
constexpr std::string_view kMatmulsOrPieces =
    "⌈r/128⌉·(⌈M/row tile⌉·⌈K/128⌉ + ⌈M/128⌉·⌈N/512⌉); contiguous: more, Y ends in pieces";
constexpr std::string_view kTransposedMatmuls = "⌈r/128⌉·⌈M/row tile⌉·(⌈K/128⌉ + ⌈N/128⌉)";

// The defaults are the blocks of the paper's released kernels.
std::vector<TilingParameter> naive_tiling() {
  return {{.name = "BM",
           .value = 8,
           .meaning = "row tiles of 128 in a block of X",
           .dimension = 'M',
           .tile = 128},
          {.name = "BK",
           .value = 4,
           .meaning = "contraction tiles of 128 in a block of X and U",
           .dimension = 'K',
           .tile = 128},
          {.name = "Br",
           .value = 8,
           .meaning = "rank tiles of 128 in a block of U and V",
           .dimension = 'r',
           .tile = 128},
          {.name = "BN",
           .value = 2,
           .meaning = "column tiles of 512 in a block of V",
           .dimension = 'N',
           .tile = 512}};
}

// Returns the parameters of the kernels that take X in its natural layout.
std::vector<TilingParameter> natural_chain_tiling(Layout y) {
  std::vector<TilingParameter> all = chain_tiling(y);
  all.push_back(contiguous_parameter());
  all.push_back(transpose_parameter());
  return all;
}

std::vector<Kernel> fused_kernels() {
  return {{.name = "xuv",
           .description = "Y = X·U·V fused; X is transposed while it loads",
           .formula = xuv_formula("Br"),
           .operands = chain_operands({'M', 'K'}, {'M', 'N'}),
           .dimensions = "MKrN",
           .tiling = natural_chain_tiling(Layout::kNatural),
           .steps = chain_steps(),
           .hbm_bytes = kBytes,
           .flops = kChainFlops,
           .nc_matmuls = kMatmulsOrPieces,
           .make = xuv,
           .cost = xuv_cost},
          {.name = "xtuv",
           .description = "Y = X·U·V fused, from X^T",
           .formula = xuv_formula("Br"),
           .operands = chain_operands({'K', 'M'}, {'M', 'N'}),
           .dimensions = "MKrN",
           .tiling = chain_tiling(Layout::kNatural),
           .steps = chain_steps(),
           .hbm_bytes = kBytes,
           .flops = kChainFlops,
           .nc_matmuls = kChainMatmuls,
           .make = xtuv,
           .cost = xuv_cost},
          {.name = "xuv_transposed",
           .description = "Y^T = (X·U·V)^T fused; X is transposed while it loads",
           .formula = xuv_formula("Br"),
           .operands = chain_operands({'M', 'K'}, {'N', 'M'}),
           .dimensions = "MKrN",
           .tiling = natural_chain_tiling(Layout::kTransposed),
           .steps = chain_steps(),
           .hbm_bytes = kBytes,
           .flops = kChainFlops,
           .nc_matmuls = kTransposedMatmuls,
           .make = xuv_transposed,
           .cost = xuv_transposed_cost},
          {.name = "xtuv_transposed",
           .description = "Y^T = (X·U·V)^T fused, from X^T",
           .formula = xuv_formula("Br"),
           .operands = chain_operands({'K', 'M'}, {'N', 'M'}),
           .dimensions = "MKrN",
           .tiling = chain_tiling(Layout::kTransposed),
           .steps = chain_steps(),
           .hbm_bytes = kBytes,
           .flops = kChainFlops,
           .nc_matmuls = kTransposedMatmuls,
           .make = xtuv_transposed,
           .cost = xuv_transposed_cost}};
}

// The kernels that the fused kernels are compared with.
std::vector<Kernel> baseline_kernels() {
  return {
      {.name = "xuv_sequential",
       .description =
           "Y = X·U·V as two calls of matmul_optimized, X·U transposed between them through HBM",
       .formula = xuv_formula("BK"),
       .operands = chain_operands({'K', 'M'}, {'M', 'N'}),
       .dimensions = "MKrN",
       .tiling = matmul_tiling(),
       .hbm_bytes = "s·(M·K·⌈r/BN⌉ + K·r + M·r·(3 + ⌈N/BN⌉) + r·N + M·N)",
       .flops = kChainFlops,
       .nc_matmuls = "⌈M/128⌉·(⌈K/128⌉·⌈r/512⌉ + ⌈r/128⌉·⌈N/512⌉)",
       .make = xuv_sequential,
       .cost = xuv_sequential_cost},
      {.name = "xuv_naive",
       .description = "Y = X·U·V fused, X·U computed again for every block of BN columns",
       .formula = xuv_formula("Br"),
       .operands = chain_operands({'K', 'M'}, {'M', 'N'}),
       .dimensions = "MKrN",
       .tiling = naive_tiling(),
       .steps = chain_steps(),
       .hbm_bytes = "s·(M·K·⌈N/BN⌉·⌈r/Br⌉ + ⌈M/BM⌉·r·(K·⌈N/BN⌉ + N) + M·N)",
       .flops = "2·M·r·(K·⌈N/BN⌉ + N)",
       .nc_matmuls = "⌈r/128⌉·(⌈N/BN⌉·⌈M/row tile⌉·⌈K/128⌉ + ⌈M/128⌉·⌈N/512⌉)",
       .make = xuv_naive,
       .cost = xuv_naive_cost}};
}

}  // namespace

std::vector<Kernel> xuv_kernels() {
  std::vector<Kernel> all = fused_kernels();
  for (Kernel& kernel : baseline_kernels()) all.push_back(std::move(kernel));
  return all;
}

}  // namespace neuronmm::kernels
