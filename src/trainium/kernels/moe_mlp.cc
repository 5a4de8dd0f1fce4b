#include "trainium/kernels/moe_mlp.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "trainium/kernels/blocks.h"
#include "trainium/kernels/description.h"

namespace neuronmm::kernels {

using tile::Access;
using tile::all;
using tile::at;
using tile::at_index;
using tile::BufferId;
using tile::Builder;
using tile::ceil_div;
using tile::one;
using tile::Program;
using tile::Slice;
using tile::Tile;
using tile::upto;

namespace {

// The most column tiles in a block whose sums share a bank: kMostDecodeTokens columns each.
constexpr int64_t kMostSumsInBank = kMovingFree / kMostDecodeTokens;
// Column tiles of 512 in a block of the last weight. A sum takes a bank, and there are two blocks
// of sums, so that one is added to the output while the next one is computed.
constexpr int64_t kMostOutputTiles = 2;
// The banks of PSUM: two for the sums of gate, two for those of up, and 2 * kMostOutputTiles for
// those of the output. Two of the last serve the transposition of X before.
constexpr int64_t kBanksOfColumnSums = 2;

// The weight of all experts: rows x columns per expert, and its blocks in elements.
struct ExpertWeight {
  std::string_view name;
  int64_t rows, columns;
  tile::Step row_block, column_block;
  BufferId input = -1;
  BufferId tiles = -1;      // A view of the whole tiles of 128 rows, if there are any.
  BufferId remainder = -1;  // A view of the matrices, if some rows fill no tile.
  BufferId block = -1;      // The memory of its blocks in SBUF.
};

// The state of one kernel.
struct Moe {
  const Context& c;
  Tile m;            // All tokens.
  Access index;      // The number of the current expert.
  Access share;      // The share of the current expert in the output of each token.
  BufferId outputs;  // The output sums, [128, K] in fp32.
  // Banks of PSUM: two sets for column sums, which hidden_columns() needs at a time, and blocks of
  // sums for the output.
  BufferId gate_banks, up_banks, output_banks;
};

void declare_input(Builder& b, DType dtype, int64_t experts, ExpertWeight& w) {
  w.input = b.input(w.name, dtype, {experts * w.rows, w.columns});
}

// Declares the views that blocks are loaded from, and the memory of the blocks. The call must
// follow the declaration of all operands, because views are not operands.
void declare_views(Builder& b, ExpertWeight& w) {
  if (w.rows >= kPartitions) {
    w.tiles = b.matrix_row_tiles(fmt::format("{}_tiles", w.name), w.input, w.rows);
  }
  if (w.rows % kPartitions > 0) {
    w.remainder = b.matrices(fmt::format("{}_matrices", w.name), w.input, w.rows);
  }
  const int64_t rows = std::min<int64_t>(w.row_block, w.rows);
  w.block = b.declare_sbuf(
      fmt::format("{}_block", w.name), b.dtype(w.input),
      {kPartitions, ceil_div(rows, kPartitions), std::min<int64_t>(w.column_block, w.columns)}, 2);
}

// Loads the rows k and the columns n of the current expert's weight. All whole tiles are one
// transfer, because a transfer whose place the data tells costs more than others do
// (simulator/device_spec.cc, dma_software).
void load_expert(const Moe& moe, const ExpertWeight& w, const Tile& k, const Tile& n) {
  Builder& b = moe.c.b;
  const int64_t tiles = k.size.max / kPartitions, remainder = k.size.max % kPartitions;
  b.allocate(w.block);
  if (tiles > 0) {
    b.load(at(w.block, {all(kPartitions), {0, {.max = tiles}}, upto(n)}),
           at_index(w.tiles, moe.index, {all(kPartitions), tiles_of(k), n}));
  }
  if (remainder > 0) {
    const Slice rows{k.start + tiles * kPartitions, {.max = remainder}};
    b.load(at(w.block, {all(remainder), one(tiles), upto(n)}),
           at_index(w.remainder, moe.index, {rows, n}));
  }
}

// Multiplies two tiles of 128 of a contraction and adds the product to a sum that runs over all
// blocks k. `first` is true for the first block, which may be the only one.
void multiply(Builder& b, const Tile& k, const Tile& kt, bool first, const Access& sum,
              const Access& stationary, const Access& moving) {
  if (k.loop >= 0) return b.matmul(sum, stationary, moving, {k, kt});
  first ? b.matmul(sum, stationary, moving, {kt}) : b.matmul_adding(sum, stationary, moving);
}

// The tile of 128 rows of a strip [128, tiles, tokens] in SBUF.
Access strip_tile(const Moe& moe, BufferId strip, const Tile& rows) {
  return at(strip, {upto(rows), one(rows.index_in(whole(0))), upto(moe.m)});
}

// The columns n of W^T · strip^T, in the next of the banks `psum`: [columns, tokens] per column
// tile, side by side. They are there until the next bank is asked for.
using ColumnSums = std::function<Access(const Tile& nt)>;
ColumnSums column_sums(const Moe& moe, const ExpertWeight& w, BufferId strip, const Tile& n,
                       BufferId psum) {
  Builder& b = moe.c.b;
  b.allocate(psum);
  const ColumnSums sums = [psum, m = moe.m](const Tile& nt) {
    return at(psum, {upto(nt), {nt.index() * m.size.max, m.size}});
  };
  const bool one_block = w.rows <= w.row_block;
  loop_blocks(b, "k", whole(w.rows), w.row_block, [&](const Tile& k) {
    load_expert(moe, w, k, n);
    b.loop("nt", n, kStationaryFree, [&](const Tile& nt) {
      b.loop("kt", k, kPartitions, [&](const Tile& kt) {
        multiply(b, k, kt, one_block, sums(nt), at(w.block, {upto(kt), one(kt.index()), nt.in(n)}),
                 strip_tile(moe, strip, kt));
      });
    });
  });
  return sums;
}

// Computes (X·W)^T as a strip in the operands' dtype.
BufferId project_columns(const Moe& moe, const ExpertWeight& w, BufferId strip) {
  Builder& b = moe.c.b;
  const BufferId result =
      b.sbuf(fmt::format("{}_strip", w.name), moe.c.dtype,
             {kPartitions, ceil_div(w.columns, kPartitions), moe.m.size.max}, 2);
  b.loop("n", w.columns, w.column_block, [&](const Tile& n) {
    const ColumnSums sums = column_sums(moe, w, strip, n, moe.gate_banks);
    b.loop("nt", n, kPartitions,
           [&](const Tile& nt) { b.copy(strip_tile(moe, result, nt), sums(nt)); });
  });
  return result;
}

// Computes H^T from the inputs of the last weights of gate and up. Both are still in PSUM when silu
// and the product read them.
BufferId hidden_columns(const Moe& moe, const ExpertWeight& gate, BufferId to_gate,
                        const ExpertWeight& up, BufferId to_up) {
  Builder& b = moe.c.b;
  const BufferId h = b.sbuf("h", moe.c.dtype,
                            {kPartitions, ceil_div(gate.columns, kPartitions), moe.m.size.max}, 2);
  b.loop("n", gate.columns, gate.column_block, [&](const Tile& n) {
    const ColumnSums gate_sums = column_sums(moe, gate, to_gate, n, moe.gate_banks);
    const ColumnSums up_sums = column_sums(moe, up, to_up, n, moe.up_banks);
    b.loop("nt", n, kPartitions, [&](const Tile& nt) {
      const BufferId activated = b.sbuf("activated", DType::kF32, {kPartitions, moe.m.size.max}, 2);
      b.silu(at(activated, {upto(nt), upto(moe.m)}), gate_sums(nt));
      b.multiply(strip_tile(moe, h, nt), at(activated, {upto(nt), upto(moe.m)}), up_sums(nt));
    });
  });
  return h;
}

// Adds the share of strip^T · W to the outputs.
void add_output(const Moe& moe, const ExpertWeight& w, BufferId strip) {
  Builder& b = moe.c.b;
  const bool one_block = w.rows <= w.row_block;
  b.loop("n", w.columns, w.column_block, [&](const Tile& n) {
    b.allocate(moe.output_banks);
    loop_blocks(b, "k", whole(w.rows), w.row_block, [&](const Tile& k) {
      load_expert(moe, w, k, n);
      b.loop("nt", n, kMovingFree, [&](const Tile& nt) {
        b.loop("kt", k, kPartitions, [&](const Tile& kt) {
          multiply(b, k, kt, one_block, at(moe.output_banks, {upto(moe.m), nt.in(n)}),
                   strip_tile(moe, strip, kt), at(w.block, {upto(kt), one(kt.index()), nt.in(n)}));
        });
      });
    });
    b.loop("nt", n, kMovingFree, [&](const Tile& nt) {
      const Access sums = at(moe.outputs, {upto(moe.m), nt});
      b.scale_add(sums, at(moe.output_banks, {upto(moe.m), nt.in(n)}), moe.share, sums);
    });
  });
}

// Stores the output sums, rounded to the operands' dtype.
void store_outputs(const Moe& moe, int64_t columns, BufferId y) {
  moe.c.b.loop("n", columns, kMovingFree, [&](const Tile& n) {
    store_rounded(moe.c, at(y, {moe.m, n}), at(moe.outputs, {upto(moe.m), n}), moe.m, n);
  });
}

// The weights of an expert: gate and up of one or two factors each, and down of one or two.
struct ExpertWeights {
  std::vector<ExpertWeight> gate, up, down;

  template <typename Function>
  void for_each(const Function& function) {
    for (std::vector<ExpertWeight>* chain : {&gate, &up, &down}) {
      for (ExpertWeight& w : *chain) function(w);
    }
  }
};

void compute_expert(const Moe& moe, const ExpertWeights& weights, BufferId x) {
  const auto before_last = [&moe](const std::vector<ExpertWeight>& chain, BufferId strip) {
    return chain.size() == 1 ? strip : project_columns(moe, chain.front(), strip);
  };
  const BufferId to_gate = before_last(weights.gate, x), to_up = before_last(weights.up, x);
  const BufferId h = hidden_columns(moe, weights.gate.back(), to_gate, weights.up.back(), to_up);
  add_output(moe, weights.down.back(), before_last(weights.down, h));
}

Program make_moe(std::string_view name, const KernelShape& p, ExpertWeights weights,
                 const KernelOptions& options) {
  Builder b(name);
  const BufferId x = b.input("x", options.dtype, {p.M, p.K});
  const BufferId experts = b.input("experts", DType::kI32, {1, p.D});
  const BufferId shares = b.input("shares", DType::kF32, {p.M, p.D});
  weights.for_each([&](ExpertWeight& w) { declare_input(b, options.dtype, p.E, w); });
  const BufferId y = b.output("y", options.dtype, {p.M, p.K});
  weights.for_each([&](ExpertWeight& w) { declare_views(b, w); });

  const Context c(b, options, true, kPsumBanks - 2 - kBanksOfColumnSums);
  const Tile m = whole(p.M);
  // The numbers come first, because the loads of the weights wait for them.
  const BufferId numbers = b.sbuf("expert", DType::kI32, {1, p.D});
  b.load(at(numbers, {all(1), all(p.D)}), at(experts, {all(1), all(p.D)}));
  const BufferId share = b.sbuf("share", DType::kF32, {kPartitions, p.D});
  b.load(at(share, {upto(m), all(p.D)}), at(shares, {m, all(p.D)}));
  const BufferId x_strip = load_left(c, "x_strip", {x, Layout::kNatural}, whole(p.K), m, 1);
  const BufferId outputs = b.sbuf("outputs", DType::kF32, {kPartitions, p.K});
  b.zero(at(outputs, {upto(m), all(p.K)}));
  Moe moe{.c = c,
          .m = m,
          .index = {},
          .share = {},
          .outputs = outputs,
          .gate_banks = c.psum,
          .up_banks = b.declare_psum("up_psum", {kPartitions, kMovingFree}, kBanksOfColumnSums),
          .output_banks =
              b.declare_psum("output_psum", {kPartitions, weights.down.back().column_block}, 2)};
  b.loop(
      "d", p.D, 1,
      [&](const Tile& d) {
        const Slice column{d.start, {.max = 1}};
        moe.index = at(numbers, {all(1), column});
        moe.share = at(share, {upto(m), column});
        compute_expert(moe, weights, x_strip);
      },
      Builder::Iterations::kCarried);
  store_outputs(moe, p.K, y);
  return b.finish();
}

}  // namespace

Program dense_moe_mlp(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  const tile::Step up_rows = block_step(tiling, "up.BK", kPartitions),
                   up_columns = block_step(tiling, "up.BN", kPartitions);
  return make_moe("dense_moe_mlp", p,
                  {.gate = {{"w_gate", p.K, p.N, up_rows, up_columns}},
                   .up = {{"w_up", p.K, p.N, up_rows, up_columns}},
                   .down = {{"w_down", p.N, p.K, block_step(tiling, "down.BK", kPartitions),
                             block_step(tiling, "down.BN", kMovingFree)}}},
                  options);
}

Program moe_mlp(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  const auto step = [&tiling](std::string_view name, int64_t tile = kPartitions) {
    return block_step(tiling, name, tile);
  };
  const auto up_chain = [&](std::string_view u, std::string_view v) {
    return std::vector<ExpertWeight>{{u, p.K, p.r, step("up.BK"), step("up.Bu")},
                                     {v, p.r, p.N, step("up.Br"), step("up.BN")}};
  };
  return make_moe("moe_mlp", p,
                  {.gate = up_chain("u_gate", "v_gate"),
                   .up = up_chain("u_up", "v_up"),
                   .down = {{"u_down", p.N, p.r, step("down.BK"), step("down.Bu")},
                            {"v_down", p.r, p.K, step("down.Br"), step("down.BN", kMovingFree)}}},
                  options);
}

namespace {

using tile::HbmRole;
using StoredAs = Formula::StoredAs;

Formula dense_moe_formula() {
  const auto projection = [](std::string_view weight) {
    return product(operand("x"), weight, "", StoredAs::kPsum);
  };
  Formula h = gated(projection("w_gate"), projection("w_up"), StoredAs::kPsum);
  return sum_of_experts(product(std::move(h), "w_down", "", StoredAs::kPsum), "experts", "shares");
}

Formula low_rank_moe_formula() {
  const auto projection = [](std::string_view u, std::string_view v) {
    return chain(operand("x"), {.u = u, .v = v, .u_block = "", .v_block = ""}, StoredAs::kPsum);
  };
  Formula h = gated(projection("u_gate", "v_gate"), projection("u_up", "v_up"), StoredAs::kPsum);
  Formula expert = chain(std::move(h), {.u = "u_down", .v = "v_down", .u_block = "", .v_block = ""},
                         StoredAs::kPsum);
  return sum_of_experts(std::move(expert), "experts", "shares");
}

// Returns the operands of a kernel with these weights.
std::vector<OperandDescription> operands_of(
    std::initializer_list<std::pair<std::string_view, MatrixLayout>> weights) {
  std::vector<OperandDescription> all = {
      {.name = "x", .layout = {'M', 'K'}, .role = HbmRole::kInput},
      {.name = "experts",
       .layout = {'1', 'D'},
       .role = HbmRole::kInput,
       .kind = OperandKind::kExperts},
      {.name = "shares",
       .layout = {'M', 'D'},
       .role = HbmRole::kInput,
       .kind = OperandKind::kShares}};
  for (const auto& [name, layout] : weights) {
    all.push_back({.name = name, .layout = layout, .role = HbmRole::kInput});
  }
  all.push_back({.name = "y", .layout = {'M', 'K'}, .role = HbmRole::kOutput});
  return all;
}

TilingParameter parameter(std::string_view name, int64_t value, std::string_view meaning,
                          char dimension, int64_t tile = 128) {
  return {.name = std::string(name),
          .value = value,
          .meaning = std::string(meaning),
          .dimension = dimension,
          .tile = tile};
}
// A parameter that counts column tiles whose sums share one bank, or one block of banks.
TilingParameter columns(TilingParameter p) {
  p.most = p.tile == 512 ? kMostOutputTiles : kMostSumsInBank;
  return p;
}

// With the defaults, a block of the weights of Qwen3-30B-A3B has all of its columns, and no
// transfer is shorter than the time that GpSimd takes to write its descriptors.
std::vector<TilingParameter> dense_moe_tiling() {
  return {parameter("up.BK", 8, "gate and up: contraction tiles of 128 in a block of W", 'K'),
          columns(parameter("up.BN", 8, "gate and up: column tiles of 128 in a block of W", 'N')),
          parameter("down.BK", 8, "down: contraction tiles of 128 in a block of W", 'N'),
          columns(parameter("down.BN", 2, "down: column tiles of 512 in a block of W", 'K', 512))};
}

std::vector<TilingParameter> low_rank_moe_tiling() {
  return {parameter("up.BK", 8, "gate and up: contraction tiles of 128 in a block of U", 'K'),
          columns(parameter("up.Bu", 8, "gate and up: rank tiles of 128 in a block of U", 'r')),
          parameter("up.Br", 8, "gate and up: rank tiles of 128 in a block of V", 'r'),
          columns(parameter("up.BN", 8, "gate and up: column tiles of 128 in a block of V", 'N')),
          parameter("down.BK", 8, "down: contraction tiles of 128 in a block of U", 'N'),
          columns(parameter("down.Bu", 8, "down: rank tiles of 128 in a block of U", 'r')),
          parameter("down.Br", 8, "down: rank tiles of 128 in a block of V", 'r'),
          columns(parameter("down.BN", 2, "down: column tiles of 512 in a block of V", 'K', 512))};
}

}  // namespace

std::vector<Kernel> moe_mlp_kernels() {
  return {{.name = "dense_moe_mlp",
           .description = "Y = sum of share * (silu(X·Wg) * (X·Wu))·Wd over the D chosen of E "
                          "experts, A per token: a mixture's decode step",
           .formula = dense_moe_formula(),
           .operands =
               operands_of({{"w_gate", {'e', 'N'}}, {"w_up", {'e', 'N'}}, {"w_down", {'f', 'K'}}}),
           .dimensions = "MKNEAD",
           .experts = true,
           .tiling = dense_moe_tiling(),
           .hbm_bytes = "s·(2·M·K + 3·D·K·N) + 4·D·(M + 1)",
           .flops = "6·M·D·K·N",
           .nc_matmuls = "D·⌈N/128⌉·(2·⌈K/128⌉ + ⌈K/512⌉)",
           .make = dense_moe_mlp,
           .cost = dense_moe_mlp_cost},
          {.name = "moe_mlp",
           .description = "Y = sum of share * (silu(X·Ug·Vg) * (X·Uu·Vu))·Ud·Vd over the D chosen "
                          "of E experts: the layer of dense_moe_mlp as U·V",
           .formula = low_rank_moe_formula(),
           .operands = operands_of({{"u_gate", {'e', 'r'}},
                                    {"v_gate", {'g', 'N'}},
                                    {"u_up", {'e', 'r'}},
                                    {"v_up", {'g', 'N'}},
                                    {"u_down", {'f', 'r'}},
                                    {"v_down", {'g', 'K'}}}),
           .dimensions = "MKrNEAD",
           .experts = true,
           .tiling = low_rank_moe_tiling(),
           .hbm_bytes = "s·(2·M·K + 3·D·r·(K + N)) + 4·D·(M + 1)",
           .flops = "6·M·D·r·(K + N)",
           .nc_matmuls = "D·⌈r/128⌉·(2·⌈K/128⌉ + 3·⌈N/128⌉ + ⌈K/512⌉)",
           .make = moe_mlp,
           .cost = moe_mlp_cost}};
}

}  // namespace neuronmm::kernels
