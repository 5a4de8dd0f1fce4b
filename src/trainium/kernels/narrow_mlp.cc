#include "trainium/kernels/narrow_mlp.h"

#include <fmt/format.h>

#include "trainium/kernels/dense_mlp.h"
#include "trainium/kernels/description.h"
#include "trainium/kernels/pivoted.h"

namespace neuronmm::kernels {

using tile::BufferId;
using tile::Builder;
using tile::ceil_div;
using tile::Program;
using tile::Tile;

// Parameters of an end that is not narrow are absent from the tiling and count as 1.
NarrowMlpTiles narrow_mlp_tiles(const Tiling& tiling) {
  const tile::Step BM = block_step(tiling, "BM", 128), row_tile{moving_tile(tiling["BM"]), "TM"};
  const auto step = [&](std::string_view name, int64_t tile) {
    return tile::Step(tiling.value_or(name, 1) * tile, name);
  };
  const auto stage = [&](const std::string& part, std::string_view u, std::string_view v) {
    return LowRankTiles{.BM = BM,
                        .BK = step(part + "BK", kPartitions),
                        .Bu = step(part + std::string(u), kPartitions),
                        .Br = step(part + std::string(v), kPartitions),
                        .BN = step(part + "BN", kMovingFree),
                        .row_tile = row_tile,
                        .passes = 1,
                        .copies = 2,
                        .prefix = part};
  };
  return {.in = stage("in.", "Bu", "Bu"),
          .up = stage("up.", "BN", "BN"),
          .down = stage("down.", "Bu", "BK"),
          .out = stage("out.", "Br", "Br")};
}

namespace {

struct Narrow {
  bool in, out;
};

struct Weights {
  BufferId d = -1;
  GateAndUp up;
  BufferId down = -1, c = -1;
};

Weights declare_weights(Builder& b, const KernelShape& p, DType dtype, const Narrow& narrow) {
  const int64_t width_in = narrow.in ? p.r : p.K, width_out = narrow.out ? p.s : p.K;
  Weights weights;
  if (narrow.in) weights.d = b.input("d", dtype, {p.K - p.r, p.r});
  weights.up.gate = b.input("w_gate", dtype, {width_in, p.N});
  weights.up.up = b.input("w_up", dtype, {width_in, p.N});
  weights.down = b.input("w_down", dtype, {p.N, width_out});
  if (narrow.out) weights.c = b.input("c", dtype, {p.s, p.K - p.s});
  return weights;
}

// Z^T is a strip, made of H^T as of an X^T, and itself part of Y.
void narrow_down(const Context& c, const KernelShape& shape, const NarrowMlpTiles& tiles,
                 const Tile& m, BufferId h, const Weights& weights, BufferId y) {
  const Tile ranks = whole(shape.s);
  const Factors factors{.u = weights.down, .v = weights.c, .prefix = "down_"};
  const BufferId strip =
      project(c, shape.N, tiles.down, m, ranks, on_chip(h, whole(shape.N), m), {factors}).front();
  store_strip(c, tiles.out.BN, m, ranks, strip, y);
  const DType sums_dtype = BlockSum::dtype_for(c, ceil_div(shape.s, tiles.out.Br));
  c.b.loop("n", shape.K - shape.s, tiles.out.BN, [&](const Tile& n) {
    const BlockSum sums = expand(c, tiles.out, {m, n, false}, ranks, factors, strip, sums_dtype);
    store_output(c, {m, shifted(n, shape.s), false}, sums, y);
  });
}

Program make_narrow(std::string_view name, const Narrow& narrow, const KernelShape& shape,
                    const Tiling& tiling, const KernelOptions& options) {
  Builder b(name);
  const LeftOperand x{b.input("x", options.dtype, {shape.M, shape.K}), Layout::kNatural,
                      TransposeBy::kDma};
  const Weights weights = declare_weights(b, shape, options.dtype, narrow);
  const BufferId y = b.output("y", options.dtype, {shape.M, shape.K});
  const bool transposes = transposes_on_tensor_engine(x.layout, x.by, options.dtype);
  const Context c(b, options, narrow.in || narrow.out || transposes);
  const NarrowMlpTiles tiles = narrow_mlp_tiles(tiling);
  const Tile width = whole(narrow.in ? shape.r : shape.K);
  b.loop("m", shape.M, tiles.up.BM, [&](const Tile& m) {
    const Factors d{.u = weights.d, .v = -1, .prefix = "in_"};
    const BufferId t = narrow.in ? project_pivots(c, shape.K, tiles.in, m, width, x, d)
                                 : load_left(c, "x_strip", x, width, m, 1);
    const BufferId h =
        hidden_rows(c, width, shape.N, tiles.up, weights.up, m, on_chip(t, width, m));
    if (narrow.out) {
      narrow_down(c, shape, tiles, m, h, weights, y);
    } else {
      dense_down(c, shape.N, shape.K, tiles.down, m, h, weights.down, y);
    }
  });
  return b.finish();
}

}  // namespace

Program narrow_mlp(const KernelShape& shape, const Tiling& tiling, const KernelOptions& options) {
  return make_narrow("narrow_mlp", {true, true}, shape, tiling, options);
}
Program narrow_mlp_in(const KernelShape& shape, const Tiling& tiling,
                      const KernelOptions& options) {
  return make_narrow("narrow_mlp_in", {true, false}, shape, tiling, options);
}
Program narrow_mlp_out(const KernelShape& shape, const Tiling& tiling,
                       const KernelOptions& options) {
  return make_narrow("narrow_mlp_out", {false, true}, shape, tiling, options);
}

namespace {

using tile::HbmRole;

Formula narrow_formula(const Narrow& narrow) {
  const auto half = [&](std::string_view weight) {
    const Formula t =
        named(product_onto(first(operand("x"), 'r'), rest(operand("x"), 'r'), "d", "in.BK"), "t");
    return product(narrow.in ? t : operand("x"), weight, "up.BK", Formula::Kept::kAsSums);
  };
  Formula down = product(gated(half("w_gate"), half("w_up")), "w_down", "down.BK");
  return narrow.out ? extended(std::move(down), "c", "out.Br") : down;
}

std::vector<OperandDescription> narrow_operands(const Narrow& narrow) {
  const char in = narrow.in ? 'r' : 'K', out = narrow.out ? 's' : 'K';
  const auto input = [](std::string_view name, char rows, char columns) {
    return OperandDescription{.name = name, .layout = {rows, columns}, .role = HbmRole::kInput};
  };
  std::vector<OperandDescription> all = {input("x", 'M', 'K')};
  if (narrow.in) all.push_back(input("d", 'k', 'r'));
  all.push_back(input("w_gate", in, 'N'));
  all.push_back(input("w_up", in, 'N'));
  all.push_back(input("w_down", 'N', out));
  if (narrow.out) all.push_back(input("c", 's', 'q'));
  all.push_back({.name = "y", .layout = {'M', 'K'}, .role = HbmRole::kOutput});
  return all;
}

// The rows of a block are the same for all stages, since what they hand on stays on the chip.
std::vector<TilingParameter> narrow_tiling(const Narrow& narrow) {
  const auto parameter = [](std::string name, int64_t value, std::string meaning, char dimension,
                            int64_t tile) {
    return TilingParameter{.name = std::move(name),
                           .value = value,
                           .meaning = std::move(meaning),
                           .dimension = dimension,
                           .tile = tile};
  };
  std::vector<TilingParameter> all = {
      parameter("BM", 4, "row tiles of 128 in a block of X, T, H, Z and Y", 'M', 128)};
  if (narrow.in) {
    all.push_back(parameter("in.BK", 4, "contraction tiles of 128 in a block of D", 'k', 128));
    all.push_back(parameter("in.Bu", 8, "column tiles of 128 in a block of D", 'r', 128));
  }
  all.push_back(parameter("up.BK", 8, "gate and up: contraction tiles of 128 in a block of W",
                          narrow.in ? 'r' : 'K', 128));
  all.push_back(
      parameter("up.BN", 4, "gate and up: column tiles of 128 in a block of W", 'N', 128));
  all.push_back(
      parameter("down.BK", 8, "down: contraction tiles of 128 in a block of W", 'N', 128));
  if (!narrow.out) {
    all.push_back(parameter("down.BN", 2, "down: column tiles of 512 in a block of W", 'K', 512));
    return all;
  }
  all.push_back(parameter("down.Bu", 4, "down: column tiles of 128 in a block of W", 's', 128));
  all.push_back(parameter("out.Br", 8, "contraction tiles of 128 in a block of C", 's', 128));
  all.push_back(parameter("out.BN", 2, "column tiles of 512 in a block of C", 'q', 512));
  return all;
}

}  // namespace

std::vector<Kernel> narrow_mlp_kernels() {
  const std::vector<DerivedStep> steps = {
      {.name = "TM", .meaning = "rows that one matmul streams"}};
  return {
      {.name = "narrow_mlp",
       .description = "Y = [Z, Z·C], Z = (silu(T·Wg) * (T·Wu))·Wd, T = X_P + X_rest·D fused: the "
                      "narrow SwiGLU layer",
       .computes = narrow_formula({true, true}),
       .operands = narrow_operands({true, true}),
       .dimensions = "MKrNs",
       .tiling = narrow_tiling({true, true}),
       .steps = steps,
       .hbm_bytes = "s·(2·M·K + ⌈M/BM⌉·(r·(K - r) + N·(2·r + s) + s·(K - s)))",
       .flops = "2·M·(r·(K - r) + N·(2·r + s) + s·(K - s))",
       .nc_matmuls = "⌈M/row tile⌉·(⌈r/128⌉·⌈(K - r)/128⌉ + ⌈N/128⌉·(2·⌈r/128⌉ + ⌈s/128⌉)) + "
                     "⌈M/128⌉·⌈s/128⌉·⌈(K - s)/512⌉",
       .make = narrow_mlp,
       .cost = narrow_mlp_cost},
      {.name = "narrow_mlp_in",
       .description =
           "Y = (silu(T·Wg) * (T·Wu))·Wd, T = X_P + X_rest·D fused: narrow in its input alone",
       .computes = narrow_formula({true, false}),
       .operands = narrow_operands({true, false}),
       .dimensions = "MKrN",
       .tiling = narrow_tiling({true, false}),
       .steps = steps,
       .hbm_bytes = "s·(2·M·K + ⌈M/BM⌉·(r·(K - r) + N·(2·r + K)))",
       .flops = "2·M·(r·(K - r) + N·(2·r + K))",
       .nc_matmuls = "⌈M/row tile⌉·⌈r/128⌉·(⌈(K - r)/128⌉ + 2·⌈N/128⌉) + "
                     "⌈M/128⌉·⌈N/128⌉·⌈K/512⌉",
       .make = narrow_mlp_in,
       .cost = narrow_mlp_in_cost},
      {.name = "narrow_mlp_out",
       .description =
           "Y = [Z, Z·C], Z = (silu(X·Wg) * (X·Wu))·Wd fused: narrow in its output alone",
       .computes = narrow_formula({false, true}),
       .operands = narrow_operands({false, true}),
       .dimensions = "MKNs",
       .tiling = narrow_tiling({false, true}),
       .steps = steps,
       .hbm_bytes = "s·(2·M·K + ⌈M/BM⌉·(N·(2·K + s) + s·(K - s)))",
       .flops = "2·M·(N·(2·K + s) + s·(K - s))",
       .nc_matmuls = "⌈M/row tile⌉·⌈N/128⌉·(2·⌈K/128⌉ + ⌈s/128⌉) + "
                     "⌈M/128⌉·⌈s/128⌉·⌈(K - s)/512⌉",
       .make = narrow_mlp_out,
       .cost = narrow_mlp_out_cost}};
}

}  // namespace neuronmm::kernels
