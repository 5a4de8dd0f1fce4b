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
                        .prefix = part,
                        .transpose = transpose_by(tiling, part)};
  };
  return {.in = stage("in.", "Bu", "Bu"),
          .up = stage("up.", "BN", "BN"),
          .down = stage("down.", "Bu", "BK"),
          .out = stage("out.", "Br", "Br")};
}

namespace {

// The input pivots: none, one set that gate and up share, or a separate set for each of the two.
enum class InputPivots { kNone, kShared, kSeparate };
// The ends of the layer that are narrow.
struct NarrowEnds {
  InputPivots input_pivots;
  bool output_pivots;
};

// The names of an X and its D. Gate and up share one pair of them, or have a pair each.
struct MlpInput {
  std::string_view x, d, prefix;
};
std::vector<MlpInput> mlp_inputs(InputPivots pivots) {
  if (pivots == InputPivots::kSeparate) {
    return {{"x_gate", "d_gate", "gate_in_"}, {"x_up", "d_up", "up_in_"}};
  }
  return {{"x", "d", "in_"}};
}

// The weights of one layer. `d` has one element per element of mlp_inputs(), and none if gate and
// up read all of X.
struct Weights {
  std::vector<BufferId> d;
  GateAndUp up;
  BufferId down = -1, c = -1;
};

Weights declare_weights(Builder& b, const KernelShape& p, DType dtype, const NarrowEnds& narrow) {
  const int64_t width_in = narrow.input_pivots == InputPivots::kNone ? p.K : p.r,
                width_out = narrow.output_pivots ? p.s : p.K;
  Weights weights;
  if (narrow.input_pivots != InputPivots::kNone) {
    for (const MlpInput& mlp_input : mlp_inputs(narrow.input_pivots)) {
      weights.d.push_back(b.input(mlp_input.d, dtype, {p.K - p.r, p.r}));
    }
  }
  weights.up.gate = b.input("w_gate", dtype, {width_in, p.N});
  weights.up.up = b.input("w_up", dtype, {width_in, p.N});
  weights.down = b.input("w_down", dtype, {p.N, width_out});
  if (narrow.output_pivots) weights.c = b.input("c", dtype, {p.s, p.K - p.s});
  return weights;
}

// Computes Y from H^T. The strip Z^T is projected from H^T as another strip is from X^T, and Z
// itself is part of Y.
void narrow_down(const Context& c, const KernelShape& shape, const NarrowMlpTiles& tiles,
                 const Tile& m, BufferId h, const Weights& weights, BufferId y) {
  const Tile ranks = whole(shape.s);
  const Factors factors{.u = weights.down, .v = weights.c, .prefix = "down_"};
  const BufferId strip =
      project(c, shape.N, tiles.down, m, ranks, strip_in_sbuf(h, whole(shape.N), m), {factors})
          .front();
  store_strip(c, tiles.out.BN, m, ranks, strip, y);
  const DType sums_dtype = BlockSum::dtype_for(c, ceil_div(shape.s, tiles.out.Br));
  c.b.loop("n", shape.K - shape.s, tiles.out.BN, [&](const Tile& n) {
    const BlockSum sums = expand(c, tiles.out, {m, n, false}, ranks, factors, strip, sums_dtype);
    store_output(c, {m, shifted(n, shape.s), false}, sums, y);
  });
}

// Returns how X is transposed, as the parameters of the first stage say, which is the stage that
// reads X.
TransposeBy transpose_of(const NarrowMlpTiles& tiles, InputPivots pivots) {
  return pivots == InputPivots::kNone ? tiles.up.transpose : tiles.in.transpose;
}

// Returns the inputs of gate and up for the rows m, one strip per element of mlp_inputs(): T^T, or
// X^T without input pivots.
std::vector<LeftBlock> inputs_of_up(const Context& c, const KernelShape& shape,
                                    const NarrowMlpTiles& tiles, InputPivots pivots, const Tile& m,
                                    const std::vector<BufferId>& x, const Weights& weights) {
  const Tile width = whole(pivots == InputPivots::kNone ? shape.K : shape.r);
  std::vector<LeftBlock> inputs;
  for (const MlpInput& mlp_input : mlp_inputs(pivots)) {
    const size_t i = inputs.size();
    const LeftOperand left{x[i], Layout::kNatural, transpose_of(tiles, pivots)};
    BufferId strip = -1;
    if (pivots == InputPivots::kNone) {
      strip = load_left(c, "x_strip", left, width, m, 1);
    } else {
      const Factors d{.u = weights.d[i], .v = -1, .prefix = std::string(mlp_input.prefix)};
      strip = project_pivots(c, shape.K, tiles.in, m, width, left, d);
    }
    inputs.push_back(strip_in_sbuf(strip, width, m));
  }
  return inputs;
}

Program make_narrow(std::string_view name, const NarrowEnds& narrow, const KernelShape& shape,
                    const Tiling& tiling, const KernelOptions& options) {
  Builder b(name);
  std::vector<BufferId> x;
  for (const MlpInput& mlp_input : mlp_inputs(narrow.input_pivots)) {
    x.push_back(b.input(mlp_input.x, options.dtype, {shape.M, shape.K}));
  }
  const Weights weights = declare_weights(b, shape, options.dtype, narrow);
  const BufferId y = b.output("y", options.dtype, {shape.M, shape.K});
  const NarrowMlpTiles tiles = narrow_mlp_tiles(tiling);
  const bool transposes = transposes_on_tensor_engine(
      Layout::kNatural, transpose_of(tiles, narrow.input_pivots), options.dtype);
  const Context c(b, options,
                  narrow.input_pivots != InputPivots::kNone || narrow.output_pivots || transposes);
  const Tile width = whole(narrow.input_pivots == InputPivots::kNone ? shape.K : shape.r);
  b.loop("m", shape.M, tiles.up.BM, [&](const Tile& m) {
    const BufferId h =
        hidden_rows(c, width, shape.N, tiles.up, weights.up, m,
                    inputs_of_up(c, shape, tiles, narrow.input_pivots, m, x, weights));
    if (narrow.output_pivots) {
      narrow_down(c, shape, tiles, m, h, weights, y);
    } else {
      dense_down(c, shape.N, shape.K, tiles.down, m, h, weights.down, y);
    }
  });
  return b.finish();
}

}  // namespace

Program narrow_mlp(const KernelShape& shape, const Tiling& tiling, const KernelOptions& options) {
  return make_narrow("narrow_mlp", {InputPivots::kShared, true}, shape, tiling, options);
}
Program narrow_mlp_in(const KernelShape& shape, const Tiling& tiling,
                      const KernelOptions& options) {
  return make_narrow("narrow_mlp_in", {InputPivots::kShared, false}, shape, tiling, options);
}
Program narrow_mlp_out(const KernelShape& shape, const Tiling& tiling,
                       const KernelOptions& options) {
  return make_narrow("narrow_mlp_out", {InputPivots::kNone, true}, shape, tiling, options);
}
Program pivoted_mlp(const KernelShape& shape, const Tiling& tiling, const KernelOptions& options) {
  return make_narrow("pivoted_mlp", {InputPivots::kSeparate, true}, shape, tiling, options);
}
Program pivoted_mlp_in(const KernelShape& shape, const Tiling& tiling,
                       const KernelOptions& options) {
  return make_narrow("pivoted_mlp_in", {InputPivots::kSeparate, false}, shape, tiling, options);
}

namespace {

using tile::HbmRole;

// If gate and up share T, the formula names it "t".
Formula narrow_formula(const NarrowEnds& narrow) {
  const auto projection = [&](const MlpInput& mlp_input, std::string_view weight) {
    const Formula x = operand(mlp_input.x);
    Formula t =
        product_added_to(first_columns(x, 'r'), other_columns(x, 'r'), mlp_input.d, "in.BK");
    if (narrow.input_pivots == InputPivots::kShared) t = named(std::move(t), "t");
    return product(narrow.input_pivots == InputPivots::kNone ? x : t, weight, "up.BK",
                   Formula::StoredAs::kSumDtype);
  };
  const std::vector<MlpInput> all = mlp_inputs(narrow.input_pivots);
  Formula down = product(gated(projection(all.front(), "w_gate"), projection(all.back(), "w_up")),
                         "w_down", "down.BK");
  return narrow.output_pivots ? with_product_appended(std::move(down), "c", "out.Br") : down;
}

std::vector<OperandDescription> narrow_operands(const NarrowEnds& narrow) {
  const bool pivots = narrow.input_pivots != InputPivots::kNone;
  const char in = pivots ? 'r' : 'K', out = narrow.output_pivots ? 's' : 'K';
  const auto input = [](std::string_view name, char rows, char columns) {
    return OperandDescription{.name = name, .layout = {rows, columns}, .role = HbmRole::kInput};
  };
  std::vector<OperandDescription> all;
  for (const MlpInput& mlp_input : mlp_inputs(narrow.input_pivots)) {
    all.push_back(input(mlp_input.x, 'M', 'K'));
  }
  for (const MlpInput& mlp_input : mlp_inputs(narrow.input_pivots)) {
    if (pivots) all.push_back(input(mlp_input.d, 'k', 'r'));
  }
  all.push_back(input("w_gate", in, 'N'));
  all.push_back(input("w_up", in, 'N'));
  all.push_back(input("w_down", 'N', out));
  if (narrow.output_pivots) all.push_back(input("c", 's', 'q'));
  all.push_back({.name = "y", .layout = {'M', 'K'}, .role = HbmRole::kOutput});
  return all;
}

// The rows of a block are equal for all stages, because intermediate results stay on the chip.
std::vector<TilingParameter> narrow_tiling(const NarrowEnds& narrow) {
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
  const bool pivots = narrow.input_pivots != InputPivots::kNone;
  if (pivots) {
    all.push_back(parameter("in.BK", 4, "contraction tiles of 128 in a block of D", 'k', 128));
    all.push_back(parameter("in.Bu", 8, "column tiles of 128 in a block of D", 'r', 128));
  }
  all.push_back(transpose_parameter());
  all.back().name = (pivots ? "in." : "up.") + all.back().name;
  all.push_back(parameter("up.BK", 8, "gate and up: contraction tiles of 128 in a block of W",
                          pivots ? 'r' : 'K', 128));
  all.push_back(
      parameter("up.BN", 4, "gate and up: column tiles of 128 in a block of W", 'N', 128));
  all.push_back(
      parameter("down.BK", 8, "down: contraction tiles of 128 in a block of W", 'N', 128));
  if (!narrow.output_pivots) {
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
       .formula = narrow_formula({InputPivots::kShared, true}),
       .operands = narrow_operands({InputPivots::kShared, true}),
       .dimensions = "MKrNs",
       .tiling = narrow_tiling({InputPivots::kShared, true}),
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
       .formula = narrow_formula({InputPivots::kShared, false}),
       .operands = narrow_operands({InputPivots::kShared, false}),
       .dimensions = "MKrN",
       .tiling = narrow_tiling({InputPivots::kShared, false}),
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
       .formula = narrow_formula({InputPivots::kNone, true}),
       .operands = narrow_operands({InputPivots::kNone, true}),
       .dimensions = "MKNs",
       .tiling = narrow_tiling({InputPivots::kNone, true}),
       .steps = steps,
       .hbm_bytes = "s·(2·M·K + ⌈M/BM⌉·(N·(2·K + s) + s·(K - s)))",
       .flops = "2·M·(N·(2·K + s) + s·(K - s))",
       .nc_matmuls = "⌈M/row tile⌉·⌈N/128⌉·(2·⌈K/128⌉ + ⌈s/128⌉) + "
                     "⌈M/128⌉·⌈s/128⌉·⌈(K - s)/512⌉",
       .make = narrow_mlp_out,
       .cost = narrow_mlp_out_cost},
      {.name = "pivoted_mlp",
       .description = "Y = [Z, Z·C], Z = (silu(Tg·Wg) * (Tu·Wu))·Wd, Tg and Tu = X_P + X_rest·D of "
                      "their own pivots fused: the pivoted SwiGLU layer",
       .formula = narrow_formula({InputPivots::kSeparate, true}),
       .operands = narrow_operands({InputPivots::kSeparate, true}),
       .dimensions = "MKrNs",
       .tiling = narrow_tiling({InputPivots::kSeparate, true}),
       .steps = steps,
       .hbm_bytes = "s·(3·M·K + ⌈M/BM⌉·(2·r·(K + N - r) + s·(N + K - s)))",
       .flops = "2·M·(2·r·(K + N - r) + s·(N + K - s))",
       .nc_matmuls = "⌈M/row tile⌉·(2·⌈r/128⌉·⌈(K - r)/128⌉ + ⌈N/128⌉·(2·⌈r/128⌉ + ⌈s/128⌉)) + "
                     "⌈M/128⌉·⌈s/128⌉·⌈(K - s)/512⌉",
       .make = pivoted_mlp,
       .cost = pivoted_mlp_cost},
      {.name = "pivoted_mlp_in",
       .description = "Y = (silu(Tg·Wg) * (Tu·Wu))·Wd, Tg and Tu = X_P + X_rest·D of their own "
                      "pivots fused: pivoted in gate and up alone",
       .formula = narrow_formula({InputPivots::kSeparate, false}),
       .operands = narrow_operands({InputPivots::kSeparate, false}),
       .dimensions = "MKrN",
       .tiling = narrow_tiling({InputPivots::kSeparate, false}),
       .steps = steps,
       .hbm_bytes = "s·(3·M·K + ⌈M/BM⌉·(2·r·(K + N - r) + N·K))",
       .flops = "2·M·(2·r·(K + N - r) + N·K)",
       .nc_matmuls = "2·⌈M/row tile⌉·⌈r/128⌉·(⌈(K - r)/128⌉ + ⌈N/128⌉) + "
                     "⌈M/128⌉·⌈N/128⌉·⌈K/512⌉",
       .make = pivoted_mlp_in,
       .cost = pivoted_mlp_in_cost}};
}

}  // namespace neuronmm::kernels
