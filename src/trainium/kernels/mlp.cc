#include "trainium/kernels/mlp.h"

#include <functional>

#include "trainium/kernels/contiguous.h"
#include "trainium/kernels/description.h"
#include "trainium/kernels/few_rows.h"
#include "trainium/kernels/low_rank.h"

namespace neuronmm::kernels {

using tile::Access;
using tile::at;
using tile::BufferId;
using tile::Builder;
using tile::ceil_div;
using tile::one;
using tile::Program;
using tile::Tile;
using tile::upto;

namespace {

// Declares the two factors of one matrix, named after the matrix: u_gate, v_gate.
Factors declare_factors(Builder& b, DType dtype, const std::string& name, int64_t in, int64_t r,
                        int64_t out) {
  return {b.input("u_" + name, dtype, {in, r}), b.input("v_" + name, dtype, {r, out}), name + "_"};
}

// The operands of the gate and up half.
struct Up {
  BufferId x;
  std::vector<Factors> factors;  // First gate, then up.
  bool contiguous = false;
};

Up declare_up(Builder& b, const KernelShape& shape, DType dtype) {
  return {b.input("x", dtype, {shape.M, shape.K}),
          {declare_factors(b, dtype, "gate", shape.K, shape.r, shape.N),
           declare_factors(b, dtype, "up", shape.K, shape.r, shape.N)}};
}

// Replaces the factors by views if they load contiguously. The call must follow the declaration of
// all operands, because views are not operands.
void view_factors(Builder& b, const KernelShape& shape, DType dtype, const LowRankTiles& tiles,
                  Up& up) {
  up.contiguous = loads_contiguously(tiles, shape.M, shape.K);
  if (!up.contiguous) return;
  up.factors[0] = contiguous_factors(b, up.factors[0], {"u_gate", "v_gate"}, shape.K, shape.r);
  up.factors[1] = contiguous_factors(b, up.factors[1], {"u_up", "v_up"}, shape.K, shape.r);
  const auto block = [&](std::string_view name, const tile::Step& k, const tile::Step& n) {
    const Shape size = {kPartitions, k / kPartitions, n};
    return b.declare_sbuf(name, dtype, size, tiles.copies);
  };
  const BufferId u =
      block("u_block", block_size(tiles.BK, 1, shape.K), block_size(tiles.Bu, 1, shape.r));
  const BufferId v = block("v_block", ceil_div(block_size(tiles.Br, 1, shape.r), 128) * 128,
                           block_size(tiles.BN, 1, shape.N));
  for (Factors& pair : up.factors) pair.u_block = u, pair.v_block = v;
}

// Tells up_rows where to put silu(gate)·up for the rows nt of H^T, and what to do after they are
// written.
struct HiddenSink {
  std::function<Access(const Tile& nt)> destination;  // A place in SBUF.
  std::function<void(const Tile& nt)> finish;
};

// Returns true if the Tensor engine has to transpose X.
bool transposes(const KernelShape& shape, const LowRankTiles& tiles, const Up& up,
                const KernelOptions& options) {
  if (up.contiguous) return transposes_contiguous_rows(shape.M);
  return transposes_on_tensor_engine(Layout::kNatural, tiles.transpose, options.dtype);
}

// Computes H^T = silu(gate)·up for the rows m. Both chains share the blocks of X, so X is read once
// for both.
void up_rows(const Context& c, const KernelShape& shape, const LowRankTiles& tiles, const Up& up,
             const Tile& m, const HiddenSink& sink) {
  const Tile ranks = whole(shape.r);
  const LeftOperand natural{up.x, Layout::kNatural, tiles.transpose};
  const LeftBlock x = up.contiguous ? load_left_contiguous(c, up.x, shape.M, shape.K, m)
                                    : load_left_blocks(c, "x_block", natural, m, tiles.copies);
  const std::vector<BufferId> strips = project(c, shape.K, tiles, m, ranks, x, up.factors);
  // Column tiles of H are the partitions of H^T. The down half contracts over them, so no
  // transposition is needed.
  c.b.loop("n", shape.N, tiles.BN, [&](const Tile& n) {
    const OutputBlock block{m, n, true};
    const BlockSum gate = expand(c, tiles, block, ranks, up.factors[0], strips[0], c.accumulate);
    const BlockSum linear = expand(c, tiles, block, ranks, up.factors[1], strips[1], c.accumulate);
    c.b.loop("nt", n, kPartitions, [&](const Tile& nt) {
      const BufferId activated = c.b.sbuf("activated", c.accumulate, {kPartitions, m.size.max}, 2);
      c.b.silu(at(activated, {upto(nt), upto(m)}), gate({upto(nt), one(nt.index()), upto(m)}));
      c.b.multiply(sink.destination(nt), at(activated, {upto(nt), upto(m)}),
                   linear({upto(nt), one(nt.index()), upto(m)}));
      sink.finish(nt);
    });
  });
}

// Stores H^T to HBM tile by tile. The buffer of each tile is free again after its store.
void up_through_hbm(const Context& c, const KernelShape& shape, const LowRankTiles& tiles,
                    const Up& up, BufferId h) {
  c.b.loop("m", shape.M, tiles.BM, [&](const Tile& m) {
    BufferId h_tile = -1;
    up_rows(c, shape, tiles, up, m,
            {.destination =
                 [&](const Tile& nt) {
                   h_tile = c.b.sbuf("h_tile", c.dtype, {kPartitions, m.size.max}, 2);
                   return at(h_tile, {upto(nt), upto(m)});
                 },
             .finish =
                 [&](const Tile& nt) {
                   c.b.store(at(h, {nt, m}), at(h_tile, {upto(nt), upto(m)}));
                 }});
  });
}

// Computes Y = H·Ud·Vd for the rows m.
void down_rows(const Context& c, const KernelShape& shape, const LowRankTiles& tiles,
               const Factors& down, const Tile& m, const LeftBlock& h, BufferId y) {
  const Tile ranks = whole(shape.r);
  const BufferId strip = project(c, shape.N, tiles, m, ranks, h, {down}).front();
  if (is_tiled(c, down.v)) {
    return expand_few_rows(c, tiles, m, shape.K, ranks, down, strip, y);
  }
  const DType sums_dtype = BlockSum::dtype_for(c, ceil_div(shape.r, tiles.Br));
  c.b.loop("n", shape.K, tiles.BN, [&](const Tile& n) {
    const OutputBlock block{m, n, false};
    store_output(c, block, expand(c, tiles, block, ranks, down, strip, sums_dtype), y);
  });
}

}  // namespace

Program mlp_up(const KernelShape& shape, const Tiling& tiling, const KernelOptions& options) {
  Builder b("mlp_up");
  Up up = declare_up(b, shape, options.dtype);
  const BufferId h = b.output("h", options.dtype, {shape.N, shape.M});
  const LowRankTiles tiles = low_rank_tiles(tiling, kMovingFree, kStationaryFree);
  view_factors(b, shape, options.dtype, tiles, up);
  const Context c(b, options, transposes(shape, tiles, up, options));
  up_through_hbm(c, shape, tiles, up, h);
  return b.finish();
}

namespace {

// Runs the two halves one after the other, each with row blocks of its own. H passes through HBM.
void mlp_through_hbm(const Context& c, const KernelShape& shape, const LowRankTiles& up_tiles,
                     const LowRankTiles& down_tiles, const Up& up, const Factors& down,
                     BufferId y) {
  const BufferId h = c.b.scratch("h", c.dtype, {shape.N, shape.M});
  up_through_hbm(c, shape, up_tiles, up, h);
  c.b.loop("m", shape.M, down_tiles.BM, [&](const Tile& m) {
    const LeftBlock blocks =
        load_left_blocks(c, "h_block", {h, Layout::kTransposed}, m, down_tiles.copies);
    down_rows(c, shape, down_tiles, down, m, blocks, y);
  });
}

// Takes one block of rows at a time through both halves, so H^T is never stored. The down half
// therefore uses the row blocks of the up half.
void mlp_on_chip(const Context& c, const KernelShape& shape, const LowRankTiles& up_tiles,
                 LowRankTiles down_tiles, const Up& up, const Factors& down, BufferId y) {
  down_tiles.BM = up_tiles.BM;
  down_tiles.row_tile = up_tiles.row_tile;
  const Tile columns = whole(shape.N);
  c.b.loop("m", shape.M, up_tiles.BM, [&](const Tile& m) {
    const BufferId h =
        c.b.sbuf("h", c.dtype, {kPartitions, ceil_div(shape.N, kPartitions), m.size.max});
    up_rows(c, shape, up_tiles, up, m,
            {.destination =
                 [&](const Tile& nt) {
                   return at(h, {upto(nt), one(nt.index_in(columns)), upto(m)});
                 },
             .finish = [](const Tile&) {}});
    // The down half reads its input in SBUF and loads nothing.
    down_rows(c, shape, down_tiles, down, m, strip_in_sbuf(h, columns, m), y);
  });
}

}  // namespace

// The variant is a tiling parameter, because which variant is faster depends on the shape. The
// tuner decides.
Program mlp(const KernelShape& shape, const Tiling& tiling, const KernelOptions& options) {
  Builder b("mlp");
  Up up = declare_up(b, shape, options.dtype);
  Factors down = declare_factors(b, options.dtype, "down", shape.N, shape.r, shape.K);
  const BufferId y = b.output("y", options.dtype, {shape.M, shape.K});
  const LowRankTiles up_tiles = low_rank_tiles(tiling, kMovingFree, kStationaryFree, "up.");
  view_factors(b, shape, options.dtype, up_tiles, up);
  if (up.contiguous) {
    down.u = tiled_rows(b, "u_down", down.u);
    down.v = tiled_rows(b, "v_down", down.v);
  }
  const Context c(b, options, transposes(shape, up_tiles, up, options));
  const LowRankTiles down_tiles = low_rank_tiles(tiling, kStationaryFree, kMovingFree, "down.");
  if (tiling["h_on_chip"] == 0) {
    mlp_through_hbm(c, shape, up_tiles, down_tiles, up, down, y);
  } else {
    mlp_on_chip(c, shape, up_tiles, down_tiles, up, down, y);
  }
  return b.finish();
}

namespace {

using tile::HbmRole;

// Returns silu(X·Ug·Vg) * (X·Uu·Vu) with the block parameters whose names begin with `prefix`. Gate
// and up keep the precision of sums before they are multiplied.
Formula hidden(const std::string& prefix) {
  const std::string u_block = prefix + "BK", v_block = prefix + "Br";
  const auto projection = [&](std::string_view u, std::string_view v) {
    return chain(operand("x"), {.u = u, .v = v, .u_block = u_block, .v_block = v_block},
                 Formula::StoredAs::kSumDtype);
  };
  return gated(projection("u_gate", "v_gate"), projection("u_up", "v_up"));
}

// The inputs of both mlp_up and mlp.
std::vector<OperandDescription> up_operands() {
  return {{.name = "x", .layout = {'M', 'K'}, .role = HbmRole::kInput},
          {.name = "u_gate", .layout = {'K', 'r'}, .role = HbmRole::kInput},
          {.name = "v_gate", .layout = {'r', 'N'}, .role = HbmRole::kInput},
          {.name = "u_up", .layout = {'K', 'r'}, .role = HbmRole::kInput},
          {.name = "v_up", .layout = {'r', 'N'}, .role = HbmRole::kInput}};
}

std::vector<OperandDescription> mlp_up_operands() {
  std::vector<OperandDescription> all = up_operands();
  all.push_back({.name = "h", .layout = {'N', 'M'}, .role = HbmRole::kOutput});
  return all;
}

std::vector<OperandDescription> mlp_operands() {
  std::vector<OperandDescription> all = up_operands();
  all.push_back({.name = "u_down", .layout = {'N', 'r'}, .role = HbmRole::kInput});
  all.push_back({.name = "v_down", .layout = {'r', 'K'}, .role = HbmRole::kInput});
  all.push_back({.name = "y", .layout = {'M', 'K'}, .role = HbmRole::kOutput});
  return all;
}

std::vector<TilingParameter> mlp_up_tiling() {
  std::vector<TilingParameter> all = chain_tiling(Layout::kTransposed);
  all.push_back(contiguous_parameter());
  all.push_back(transpose_parameter());
  return all;
}

// The kernel computes X -> H^T -> Y: the down half contracts over N, and its columns are K.
std::vector<TilingParameter> mlp_tiling() {
  std::vector<TilingParameter> all;
  for (TilingParameter p : mlp_up_tiling()) {
    p.name = "up." + p.name;
    p.meaning = "gate and up: " + p.meaning;
    all.push_back(p);
  }
  for (TilingParameter p : chain_tiling(Layout::kNatural)) {
    if (p.dimension == 'K' || p.dimension == 'N') p.dimension = p.dimension == 'K' ? 'N' : 'K';
    p.meaning = "down, X is H: " + p.meaning + (p.name == "BM" ? " (h_on_chip: up.BM)" : "");
    p.name = "down." + p.name;
    all.push_back(p);
  }
  all.push_back({.name = "h_on_chip",
                 .value = 0,
                 .meaning = "1: H^T of a row block stays in SBUF, 0: it goes through HBM",
                 .least = 0,
                 .most = 1,
                 .search_values = {0, 1}});
  return all;
}

std::vector<DerivedStep> mlp_steps() {
  std::vector<DerivedStep> all = chain_steps("up.");
  for (DerivedStep& step : chain_steps("down.")) all.push_back(std::move(step));
  return all;
}

// H is an operand of the down half, so it is rounded to the operands' dtype.
Formula mlp_formula() {
  return chain(hidden("up."),
               {.u = "u_down", .v = "v_down", .u_block = "down.BK", .v_block = "down.Br"});
}

// The tuner searches the two halves separately. The down half reads H, so its K is the N of the up
// half.
std::vector<SubKernel> mlp_sub_kernels() {
  return {{.prefix = "up.", .kernel = "mlp_up", .shape = [](const KernelShape& p) { return p; }},
          {.prefix = "down.", .kernel = "xtuv", .shape = [](const KernelShape& p) {
             return KernelShape{.M = p.M, .K = p.N, .r = p.r, .N = p.K};
           }}};
}

}  // namespace

std::vector<Kernel> mlp_kernels() {
  return {{.name = "mlp_up",
           .description = "H^T = (silu(X·Ug·Vg) * (X·Uu·Vu))^T fused",
           .formula = hidden(""),
           .operands = mlp_up_operands(),
           .dimensions = "MKrN",
           .tiling = mlp_up_tiling(),
           .steps = chain_steps(),
           .hbm_bytes = "s·(P·M·K + 2·⌈M/BM⌉·r·(K + N) + M·N)",
           .flops = "4·M·r·(K + N)",
           .nc_matmuls = "2·⌈r/128⌉·⌈M/512⌉·(⌈K/128⌉ + ⌈N/128⌉)",
           .make = mlp_up,
           .cost = mlp_up_cost},
          {.name = "mlp",
           .description =
               "Y = H·Ud·Vd with H of mlp_up: the whole SwiGLU layer, K = hidden, N = intermediate",
           .formula = mlp_formula(),
           .operands = mlp_operands(),
           .dimensions = "MKrN",
           .tiling = mlp_tiling(),
           .steps = mlp_steps(),
           .hbm_bytes =
               "s·((P + 1)·M·K + (1 + P)·M·N + (2·⌈M/up.BM⌉ + ⌈M/down.BM⌉)·r·(K + N)); h_on_chip: "
               "s·((P + 1)·M·K + 3·⌈M/up.BM⌉·r·(K + N))",
           .flops = "6·M·r·(K + N)",
           .nc_matmuls =
               "⌈r/128⌉·(2·⌈M/512⌉·(⌈K/128⌉ + ⌈N/128⌉) + ⌈M/row tile⌉·⌈N/128⌉ + ⌈M/128⌉·⌈K/512⌉); "
               "contiguous: more, Y ends in pieces",
           .make = mlp,
           .cost = mlp_cost,
           .sub_kernels = mlp_sub_kernels()}};
}

}  // namespace neuronmm::kernels
