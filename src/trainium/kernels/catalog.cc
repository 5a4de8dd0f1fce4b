// kernels(): the list of all kernels. Formulas: s = bytes per element, ⌈⌉ rounds up; a row tile is
// the largest of 512, 384, 256, 128 rows that divides BM; P is the passes over X that equal
// shares of the ranks need, in whole blocks of U.

#include <fmt/format.h>

#include "trainium/kernels/dense_mlp.h"
#include "trainium/kernels/matmul.h"
#include "trainium/kernels/mlp.h"
#include "trainium/kernels/registry.h"
#include "trainium/kernels/xuv.h"

namespace neuronmm::kernels {
namespace {

using tile::HbmRole;

std::vector<OperandDescription> matmul_operands() {
  return {{"x", "[K, M], or [M, K] with a natural left operand", HbmRole::kInput},
          {"w", "[K, N]", HbmRole::kInput},
          {"y", "[M, N]", HbmRole::kOutput}};
}

std::vector<OperandDescription> low_rank_operands(std::string_view x, std::string_view y) {
  return {{"x", x, HbmRole::kInput},
          {"u", "[K, r]", HbmRole::kInput},
          {"v", "[r, N]", HbmRole::kInput},
          {"y", y, HbmRole::kOutput}};
}

constexpr std::string_view kMatmulReference = "x @ w", kLowRankReference = "x @ u @ v";
constexpr std::string_view kMatmulFlops = "2·M·K·N";
constexpr std::string_view kMatmulCount = "⌈M/128⌉·⌈K/128⌉·⌈N/512⌉";
constexpr std::string_view kFusedBytes = "s·(P·M·K + ⌈M/BM⌉·r·(K + N) + M·N)";
constexpr std::string_view kFusedFlops = "2·M·r·(K + N)";
constexpr std::string_view kFusedCount = "⌈r/128⌉·(⌈M/row tile⌉·⌈K/128⌉ + ⌈M/128⌉·⌈N/512⌉)";
constexpr std::string_view kTransposedCount = "⌈r/128⌉·⌈M/row tile⌉·(⌈K/128⌉ + ⌈N/128⌉)";

// The tutorial's block sizes; the published baselines use BM 8.
std::vector<TilingParameter> matmul_tiling() {
  return {{"BM", 16, "row tiles of 128 in a block of X", 'M', 128},
          {"BK", 8, "contraction tiles of 128 in a block", 'K', 128},
          {"BN", 2, "column tiles of 512 in a block of W", 'N', 512}};
}

// The blocks of the paper's released kernels.
std::vector<TilingParameter> naive_tiling() {
  return {{"BM", 8, "row tiles of 128 in a block of X", 'M', 128},
          {"BK", 4, "contraction tiles of 128 in a block of X and U", 'K', 128},
          {"Br", 8, "rank tiles of 128 in a block of U and V", 'r', 128},
          {"BN", 2, "column tiles of 512 in a block of V", 'N', 512}};
}

// A low-rank chain with Y or Y^T: the same blocks, and what the paper's kernels leave fixed.
std::vector<TilingParameter> chain_tiling(Layout y) {
  const bool natural = y == Layout::kNatural;
  const int64_t rows = natural ? 128 : 512, columns = natural ? 512 : 128;
  return {{"BM", 1024 / rows, fmt::format("row tiles of {} in a block of X", rows), 'M', rows},
          {"BK", 4, "contraction tiles of 128 in a block of X and U", 'K', 128},
          {"Bu", 8, "rank tiles of 128 in a block of U", 'r', 128},
          {"Br", 8, "rank tiles of 128 in a block of V", 'r', 128},
          {"BN", natural ? 2 : 4, fmt::format("column tiles of {} in a block of V", columns), 'N',
           columns},
          {"passes",
           1,
           "over X, each for a share of the ranks, so that fewer sums are kept",
           0,
           1,
           1,
           8,
           {1, 2, 4},
           true},
          {"copies", 2, "of the blocks of X, U and V, which rotate", 0, 1, 1, 4, {2, 3}}};
}

// X -> H^T -> Y: the down half contracts over N, and its columns are K.
std::vector<TilingParameter> mlp_tiling() {
  std::vector<TilingParameter> all;
  for (TilingParameter p : chain_tiling(Layout::kTransposed)) {
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
  all.push_back({"h_on_chip",
                 0,
                 "1: H^T of a row block stays in SBUF, 0: it goes through HBM",
                 0,
                 1,
                 0,
                 1,
                 {0, 1}});
  return all;
}

std::vector<TilingParameter> dense_mlp_tiling() {
  return {{"BM", 4, "row tiles of 128 in a block of X, H and Y", 'M', 128},
          {"up.BK", 8, "gate and up: contraction tiles of 128 in a block of W", 'K', 128},
          {"up.BN", 4, "gate and up: column tiles of 128 in a block of W", 'N', 128},
          {"down.BK", 8, "down: contraction tiles of 128 in a block of W", 'N', 128},
          {"down.BN", 2, "down: column tiles of 512 in a block of W", 'K', 512}};
}

std::vector<Kernel> matmul_kernels() {
  return {
      {"matmul_tiled",
       "Y = X·W, both operand tiles loaded for every multiplication",
       matmul_operands(),
       {},
       "s·(M·K·⌈N/512⌉ + K·N·⌈M/128⌉ + M·N)",
       kMatmulFlops,
       kMatmulCount,
       false,
       true,
       matmul_tiled,
       matmul_tiled_cost,
       kMatmulReference},
      {"matmul_hoisted",
       "Y = X·W, strips of X and W loaded ahead of the contraction",
       matmul_operands(),
       {},
       "s·(M·K + K·N·⌈M/128⌉ + M·N)",
       kMatmulFlops,
       kMatmulCount,
       false,
       true,
       matmul_hoisted,
       matmul_hoisted_cost,
       kMatmulReference},
      {"matmul_blocked",
       "Y = X·W, strips for blocks of BM x BN output tiles",
       matmul_operands(),
       {{"BM", 2, "row tiles of 128 in an output block", 'M', 128},
        {"BN", 2, "column tiles of 512 in an output block", 'N', 512}},
       "s·(M·K + K·N·⌈M/BM⌉ + M·N)",
       kMatmulFlops,
       kMatmulCount,
       false,
       true,
       matmul_blocked,
       matmul_blocked_cost,
       kMatmulReference},
      {"matmul_optimized", "Y = X·W, blocked in all dimensions; sums of all rows stay in SBUF",
       matmul_operands(), matmul_tiling(), "s·(M·K·⌈N/BN⌉ + K·N + M·N)", kMatmulFlops, kMatmulCount,
       false, true, matmul_optimized, matmul_optimized_cost, kMatmulReference},
      {"matmul_fixed_order", "Y = X·W, blocked in all dimensions; sums of one output block in SBUF",
       matmul_operands(), matmul_tiling(), "s·(M·K·⌈N/BN⌉ + K·N·⌈M/BM⌉ + M·N)", kMatmulFlops,
       kMatmulCount, false, true, matmul_fixed_order, matmul_fixed_order_cost, kMatmulReference},
  };
}

std::vector<Kernel> low_rank_kernels() {
  return {
      {"xuv", "Y = X·U·V fused; the loading DMA transposes X",
       low_rank_operands("[M, K]", "[M, N]"), chain_tiling(Layout::kNatural), kFusedBytes,
       kFusedFlops, kFusedCount, true, false, xuv, xuv_cost, kLowRankReference},
      {"xtuv", "Y = X·U·V fused, from X^T", low_rank_operands("[K, M]", "[M, N]"),
       chain_tiling(Layout::kNatural), kFusedBytes, kFusedFlops, kFusedCount, true, false, xtuv,
       xuv_cost, kLowRankReference},
      {"xuv_transposed", "Y^T = (X·U·V)^T fused; the loading DMA transposes X",
       low_rank_operands("[M, K]", "[N, M]"), chain_tiling(Layout::kTransposed), kFusedBytes,
       kFusedFlops, kTransposedCount, true, false, xuv_transposed, xuv_transposed_cost,
       kLowRankReference},
      {"xtuv_transposed", "Y^T = (X·U·V)^T fused, from X^T", low_rank_operands("[K, M]", "[N, M]"),
       chain_tiling(Layout::kTransposed), kFusedBytes, kFusedFlops, kTransposedCount, true, false,
       xtuv_transposed, xuv_transposed_cost, kLowRankReference},
      {"xuv_sequential",
       "Y = X·U·V as two calls of matmul_optimized, X·U transposed between them through HBM",
       low_rank_operands("[K, M]", "[M, N]"), matmul_tiling(),
       "s·(M·K·⌈r/BN⌉ + K·r + M·r·(3 + ⌈N/BN⌉) + r·N + M·N)", kFusedFlops,
       "⌈M/128⌉·(⌈K/128⌉·⌈r/512⌉ + ⌈r/128⌉·⌈N/512⌉)", true, false, xuv_sequential,
       xuv_sequential_cost, kLowRankReference},
      {"xuv_naive", "Y = X·U·V fused, X·U computed again for every block of BN columns",
       low_rank_operands("[K, M]", "[M, N]"), naive_tiling(),
       "s·(M·K·⌈N/BN⌉·⌈r/Br⌉ + ⌈M/BM⌉·r·(K·⌈N/BN⌉ + N) + M·N)", "2·M·r·(K·⌈N/BN⌉ + N)",
       "⌈r/128⌉·(⌈N/BN⌉·⌈M/row tile⌉·⌈K/128⌉ + ⌈M/128⌉·⌈N/512⌉)", true, false, xuv_naive,
       xuv_naive_cost, kLowRankReference},
  };
}

std::vector<Kernel> mlp_kernels() {
  return {
      {"mlp_up",
       "H^T = (silu(X·Ug·Vg) * (X·Uu·Vu))^T fused",
       {{"x", "[M, K]", HbmRole::kInput},
        {"u_gate", "[K, r]", HbmRole::kInput},
        {"v_gate", "[r, N]", HbmRole::kInput},
        {"u_up", "[K, r]", HbmRole::kInput},
        {"v_up", "[r, N]", HbmRole::kInput},
        {"h", "[N, M]", HbmRole::kOutput}},
       chain_tiling(Layout::kTransposed),
       "s·(P·M·K + 2·⌈M/BM⌉·r·(K + N) + M·N)",
       "4·M·r·(K + N)",
       "2·⌈r/128⌉·⌈M/512⌉·(⌈K/128⌉ + ⌈N/128⌉)",
       true,
       false,
       mlp_up,
       mlp_up_cost,
       "silu(x @ u_gate @ v_gate) * (x @ u_up @ v_up)"},
      {"mlp",
       "Y = H·Ud·Vd with H of mlp_up: the whole SwiGLU layer, K = hidden, N = intermediate",
       {{"x", "[M, K]", HbmRole::kInput},
        {"u_gate", "[K, r]", HbmRole::kInput},
        {"v_gate", "[r, N]", HbmRole::kInput},
        {"u_up", "[K, r]", HbmRole::kInput},
        {"v_up", "[r, N]", HbmRole::kInput},
        {"u_down", "[N, r]", HbmRole::kInput},
        {"v_down", "[r, K]", HbmRole::kInput},
        {"y", "[M, K]", HbmRole::kOutput}},
       mlp_tiling(),
       "s·((P + 1)·M·K + (1 + P)·M·N + (2·⌈M/up.BM⌉ + ⌈M/down.BM⌉)·r·(K + N)); h_on_chip: "
       "s·((P + 1)·M·K + 3·⌈M/up.BM⌉·r·(K + N))",
       "6·M·r·(K + N)",
       "⌈r/128⌉·(2·⌈M/512⌉·(⌈K/128⌉ + ⌈N/128⌉) + ⌈M/row tile⌉·⌈N/128⌉ + ⌈M/128⌉·⌈K/512⌉)",
       true,
       false,
       mlp,
       mlp_cost,
       "(silu(x @ u_gate @ v_gate) * (x @ u_up @ v_up)) @ u_down @ v_down",
       {{"up.", "mlp_up", [](const KernelShape& p) { return p; }},
        {"down.", "xtuv",
         [](const KernelShape& p) {
           return KernelShape{.M = p.M, .K = p.N, .r = p.r, .N = p.K};
         }}}},
      {"dense_mlp",
       "Y = (silu(X·Wg) * (X·Wu))·Wd fused: the dense SwiGLU layer, K = hidden, N = intermediate",
       {{"x", "[M, K]", HbmRole::kInput},
        {"w_gate", "[K, N]", HbmRole::kInput},
        {"w_up", "[K, N]", HbmRole::kInput},
        {"w_down", "[N, K]", HbmRole::kInput},
        {"y", "[M, K]", HbmRole::kOutput}},
       dense_mlp_tiling(),
       "s·(2·M·K + 3·⌈M/BM⌉·K·N)",
       "6·M·K·N",
       "⌈N/128⌉·(2·⌈M/row tile⌉·⌈K/128⌉ + ⌈M/128⌉·⌈K/512⌉)",
       false,
       false,
       dense_mlp,
       dense_mlp_cost,
       "(silu(x @ w_gate) * (x @ w_up)) @ w_down"},
  };
}

std::vector<Kernel> all_kernels() {
  std::vector<Kernel> all = matmul_kernels();
  for (std::vector<Kernel> more : {low_rank_kernels(), mlp_kernels()}) {
    std::move(more.begin(), more.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

std::span<const Kernel> kernels() {
  static const std::vector<Kernel> all = all_kernels();
  return all;
}

}  // namespace neuronmm::kernels
