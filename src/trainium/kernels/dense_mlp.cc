// The stages of low_rank.h do the work. A column block of Wg or Wu is the U of a projection whose
// ranks are the columns of the block. H^T is the strip, and Wd is the V that expands it.

#include "trainium/kernels/dense_mlp.h"

#include "trainium/kernels/contiguous.h"
#include "trainium/kernels/description.h"
#include "trainium/kernels/few_rows.h"

namespace neuronmm::kernels {

using tile::at;
using tile::BufferId;
using tile::Builder;
using tile::ceil_div;
using tile::one;
using tile::Tile;
using tile::upto;

namespace {

// Returns the sums of gate and up. If they read the same X, they share its blocks.
std::vector<BlockSum> gate_and_up_sums(const Context& c, int64_t K, const LowRankTiles& tiles,
                                       const GateAndUp& in, const Tile& m, const Tile& n,
                                       const std::vector<LeftBlock>& x) {
  const Factors gate{.u = in.gate, .v = -1, .prefix = "gate_", .u_block = in.block};
  const Factors up{.u = in.up, .v = -1, .prefix = "up_", .u_block = in.block};
  if (x.size() == 1) return project_sums(c, K, tiles, m, n, x[0], {gate, up}, c.accumulate);
  std::vector<BlockSum> sums = project_sums(c, K, tiles, m, n, x[0], {gate}, c.accumulate);
  sums.push_back(project_sums(c, K, tiles, m, n, x[1], {up}, c.accumulate).front());
  return sums;
}

// Computes H^T for the rows m and the columns n, from X^T in SBUF: first the sums of gate and up,
// then silu and the product. All of them have columns as partitions.
void hidden_block(const Context& c, int64_t K, const LowRankTiles& tiles, const GateAndUp& in,
                  const Tile& m, const Tile& n, const std::vector<LeftBlock>& x, BufferId h) {
  const std::vector<BlockSum> sums = gate_and_up_sums(c, K, tiles, in, m, n, x);
  c.b.loop("nt", n, kPartitions, [&](const Tile& nt) {
    const auto sum = [&](size_t i) { return sums[i]({upto(nt), one(nt.index()), upto(m)}); };
    const BufferId activated = c.b.sbuf("activated", c.accumulate, {kPartitions, m.size.max}, 2);
    c.b.silu(at(activated, {upto(nt), upto(m)}), sum(0));
    c.b.multiply(at(h, {upto(nt), one(nt.index_in(whole(0))), upto(m)}),
                 at(activated, {upto(nt), upto(m)}), sum(1));
  });
}

}  // namespace

BufferId hidden_rows(const Context& c, const Tile& contraction, int64_t N,
                     const LowRankTiles& tiles, const GateAndUp& weights, const Tile& m,
                     const std::vector<LeftBlock>& x) {
  const BufferId h = c.b.sbuf("h", c.dtype, {kPartitions, ceil_div(N, kPartitions), m.size.max});
  c.b.loop("n", N, tiles.Br, [&](const Tile& n) {
    hidden_block(c, contraction.size.max, tiles, weights, m, n, x, h);
  });
  return h;
}

// Wd expands the strip H^T, whose "ranks" are the intermediate columns.
void dense_down(const Context& c, int64_t N, int64_t columns, const LowRankTiles& tiles,
                const Tile& m, BufferId h, BufferId w_down, BufferId y) {
  const DType sums_dtype = BlockSum::dtype_for(c, ceil_div(N, tiles.Br));
  const Factors down{.u = -1, .v = w_down, .prefix = "down_"};
  if (is_tiled(c, w_down)) {
    return expand_few_rows(c, tiles, m, columns, whole(N), down, h, y);
  }
  c.b.loop("k", columns, tiles.BN, [&](const Tile& k) {
    const OutputBlock block{m, k, false};
    store_output(c, block, expand(c, tiles, block, whole(N), down, h, sums_dtype), y);
  });
}

// The tiles are those of low_rank.h under other parameter names. Parameters that a dense layer does
// not have are 1.
DenseMlpTiles dense_mlp_tiles(const Tiling& tiling) {
  constexpr int64_t kUnused = 1;
  const tile::Step BM = block_step(tiling, "BM", 128), row_tile{moving_tile(tiling["BM"]), "TM"};
  const tile::Step columns = block_step(tiling, "up.BN", kStationaryFree);
  return {.up = {.BM = BM,
                 .BK = block_step(tiling, "up.BK", kPartitions),
                 .Bu = columns,
                 .Br = columns,
                 .BN = kUnused,
                 .row_tile = row_tile,
                 .passes = 1,
                 .copies = 2,
                 .prefix = "up.",
                 .contiguous = tiling.value_or("up.contiguous", 0) != 0,
                 .transpose = transpose_by(tiling, "up.")},
          .down = {.BM = BM,
                   .BK = kUnused,
                   .Bu = kUnused,
                   .Br = block_step(tiling, "down.BK", kPartitions),
                   .BN = block_step(tiling, "down.BN", kMovingFree),
                   .row_tile = row_tile,
                   .passes = 1,
                   .copies = 2,
                   .prefix = "down."}};
}

tile::Program dense_mlp(const KernelShape& shape, const Tiling& tiling,
                        const KernelOptions& options) {
  Builder b("dense_mlp");
  const auto input = [&](std::string_view name, const Shape& size) {
    return b.input(name, options.dtype, size);
  };
  const BufferId x = input("x", {shape.M, shape.K});
  GateAndUp weights{.gate = input("w_gate", {shape.K, shape.N}),
                    .up = input("w_up", {shape.K, shape.N})};
  BufferId w_down = input("w_down", {shape.N, shape.K});
  const BufferId y = b.output("y", options.dtype, {shape.M, shape.K});
  const DenseMlpTiles tiles = dense_mlp_tiles(tiling);
  const bool contiguous = loads_contiguously(tiles.up, shape.M, shape.K);
  if (contiguous) {
    weights.gate = contiguous_view(b, "w_gate", weights.gate, shape.K, shape.N);
    weights.up = contiguous_view(b, "w_up", weights.up, shape.K, shape.N);
    w_down = tiled_rows(b, "w_down", w_down);
    weights.block = b.declare_sbuf("up_block", options.dtype,
                                   {kPartitions, block_size(tiles.up.BK, 1, shape.K) / 128,
                                    block_size(tiles.up.Br, 1, shape.N)},
                                   tiles.up.copies);
  }
  const Context c(b, options,
                  contiguous ? transposes_contiguous_rows(shape.M)
                             : transposes_on_tensor_engine(Layout::kNatural, tiles.up.transpose,
                                                           options.dtype));
  const Tile contraction = whole(shape.K);
  b.loop("m", shape.M, tiles.up.BM, [&](const Tile& m) {
    // X^T of a block of rows stays in SBUF for all columns of both weights.
    const LeftOperand natural{x, Layout::kNatural, tiles.up.transpose};
    const LeftBlock x_strip =
        contiguous
            ? load_left_contiguous(c, x, shape.M, shape.K, m)
            : strip_in_sbuf(load_left(c, "x_strip", natural, contraction, m, 1), contraction, m);
    const BufferId h = hidden_rows(c, contraction, shape.N, tiles.up, weights, m, {x_strip});
    dense_down(c, shape.N, shape.K, tiles.down, m, h, w_down, y);
  });
  return b.finish();
}

namespace {

using tile::HbmRole;

// Gate and up keep the precision of sums until the activation. H is rounded to the operands' dtype.
Formula dense_formula() {
  const auto projection = [](std::string_view weight) {
    return product(operand("x"), weight, "up.BK", Formula::StoredAs::kSumDtype);
  };
  return product(gated(projection("w_gate"), projection("w_up")), "w_down", "down.BK");
}

// The rows of a block are equal for both halves, because H stays on the chip.
std::vector<TilingParameter> dense_tiling() {
  TilingParameter contiguous = contiguous_parameter();
  contiguous.name = "up." + contiguous.name;
  contiguous.meaning = "gate and up: " + contiguous.meaning;
  TilingParameter transpose = transpose_parameter();
  transpose.name = "up." + transpose.name;
  return {{.name = "BM",
           .value = 4,
           .meaning = "row tiles of 128 in a block of X, H and Y",
           .dimension = 'M',
           .tile = 128},
          {.name = "up.BK",
           .value = 8,
           .meaning = "gate and up: contraction tiles of 128 in a block of W",
           .dimension = 'K',
           .tile = 128},
          {.name = "up.BN",
           .value = 4,
           .meaning = "gate and up: column tiles of 128 in a block of W",
           .dimension = 'N',
           .tile = 128},
          {.name = "down.BK",
           .value = 8,
           .meaning = "down: contraction tiles of 128 in a block of W",
           .dimension = 'N',
           .tile = 128},
          {.name = "down.BN",
           .value = 2,
           .meaning = "down: column tiles of 512 in a block of W",
           .dimension = 'K',
           .tile = 512},
          contiguous,
          transpose};
}

}  // namespace

std::vector<Kernel> dense_mlp_kernels() {
  return {{.name = "dense_mlp",
           .description = "Y = (silu(X·Wg) * (X·Wu))·Wd fused: the dense SwiGLU layer, K = hidden, "
                          "N = intermediate",
           .formula = dense_formula(),
           .operands = {{.name = "x", .layout = {'M', 'K'}, .role = HbmRole::kInput},
                        {.name = "w_gate", .layout = {'K', 'N'}, .role = HbmRole::kInput},
                        {.name = "w_up", .layout = {'K', 'N'}, .role = HbmRole::kInput},
                        {.name = "w_down", .layout = {'N', 'K'}, .role = HbmRole::kInput},
                        {.name = "y", .layout = {'M', 'K'}, .role = HbmRole::kOutput}},
           .tiling = dense_tiling(),
           .steps = {{.name = "TM", .meaning = "rows that one matmul streams"}},
           .hbm_bytes = "s·(2·M·K + 3·⌈M/BM⌉·K·N)",
           .flops = "6·M·K·N",
           .nc_matmuls = "⌈N/128⌉·(2·⌈M/row tile⌉·⌈K/128⌉ + ⌈M/128⌉·⌈K/512⌉); contiguous: more, Y "
                         "ends in pieces",
           .make = dense_mlp,
           .cost = dense_mlp_cost}};
}

}  // namespace neuronmm::kernels
