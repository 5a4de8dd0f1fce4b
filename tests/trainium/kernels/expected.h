#pragma once
// Says what every kernel should give: in fp64 with a bound, and in Python. The functions are
// written by hand for each kernel's name and do not read the formula that a kernel describes itself
// with.

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trainium/kernels/oracle.h"
#include "trainium/kernels/registry.h"
#include "trainium/kernels/shapes.h"

namespace neuronmm::kernels {

using Operands = std::map<std::string, Matrix, std::less<>>;

// Returns the rounding of a contraction over `size` in blocks of `tiles` x 128, whose result is in
// the operands' dtype. 0 tiles mean one block.
inline Rounding rounding(const Instance& c, int64_t size, int64_t tiles) {
  return {c.options.accumulate, c.options.dtype,
          tiles == 0 ? 1 : tile::ceil_div(size, tiles * 128)};
}

inline Bounded expected_matmul(const Instance& c, const Bounded& x, const Operands& in) {
  const bool strips =
      c.kernel->name != "matmul_optimized" && c.kernel->name != "matmul_fixed_order";
  return multiply(x, in.at("w"), rounding(c, c.shape.K, strips ? 0 : c.tiling["BK"]));
}

struct Blocks {
  int64_t BK, Br;
};
inline Bounded chain_of(const Instance& c, const Bounded& x, const Matrix& u, const Matrix& v,
                        const Blocks& blocks, DType result) {
  const Bounded strip = multiply(x, u, rounding(c, x.columns, blocks.BK));
  Rounding last = rounding(c, u.columns(), blocks.Br);
  last.result = result;
  return multiply(strip, v, last);
}

inline Bounded expected_chain(const Instance& c, const Bounded& x, const Operands& in) {
  const int64_t BK = c.tiling["BK"];
  const Blocks blocks{BK, c.kernel->name == "xuv_sequential" ? BK : c.tiling["Br"]};
  return chain_of(c, x, in.at("u"), in.at("v"), blocks, c.options.dtype);
}

inline Bounded hidden_of(const Instance& c, const Bounded& x, const Operands& in,
                         const Blocks& blocks) {
  const DType sums = c.options.accumulate;
  const Bounded gate = chain_of(c, x, in.at("u_gate"), in.at("v_gate"), blocks, sums);
  const Bounded up = chain_of(c, x, in.at("u_up"), in.at("v_up"), blocks, sums);
  return gated(gate, up, sums, c.options.dtype);
}

inline Bounded expected_mlp_up(const Instance& c, const Bounded& x, const Operands& in) {
  return hidden_of(c, x, in, {c.tiling["BK"], c.tiling["Br"]});
}

inline Bounded expected_mlp(const Instance& c, const Bounded& x, const Operands& in) {
  const Bounded h = hidden_of(c, x, in, {c.tiling["up.BK"], c.tiling["up.Br"]});
  return chain_of(c, h, in.at("u_down"), in.at("v_down"),
                  {c.tiling["down.BK"], c.tiling["down.Br"]}, c.options.dtype);
}

inline Bounded expected_dense_mlp(const Instance& c, const Bounded& x, const Operands& in) {
  Rounding rounding_up = rounding(c, c.shape.K, c.tiling["up.BK"]);
  rounding_up.result = c.options.accumulate;
  const Bounded gate = multiply(x, in.at("w_gate"), rounding_up);
  const Bounded up = multiply(x, in.at("w_up"), rounding_up);
  const Bounded h = gated(gate, up, c.options.accumulate, c.options.dtype);
  return multiply(h, in.at("w_down"), rounding(c, c.shape.N, c.tiling["down.BK"]));
}

// Returns x[:, begin:end].
inline Bounded columns_of(const Bounded& x, int64_t begin, int64_t end) {
  Bounded part(x.rows, end - begin);
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = begin; j < end; ++j) {
      const auto from = static_cast<size_t>(i * x.columns + j);
      const auto to = static_cast<size_t>(i * part.columns + j - begin);
      part.value[to] = x.value[from];
      part.error[to] = x.error[from];
    }
  }
  return part;
}

inline Bounded append_columns(const Bounded& a, const Bounded& b) {
  Bounded both(a.rows, a.columns + b.columns);
  for (int64_t i = 0; i < both.rows; ++i) {
    for (int64_t j = 0; j < both.columns; ++j) {
      const Bounded& source = j < a.columns ? a : b;
      const auto from =
          static_cast<size_t>(i * source.columns + (j < a.columns ? j : j - a.columns));
      const auto to = static_cast<size_t>(i * both.columns + j);
      both.value[to] = source.value[from];
      both.error[to] = source.error[from];
    }
  }
  return both;
}

// Returns x's first r columns + the others · d. Every sum begins at a pivot, so its roundings
// include those of the pivot.
inline Bounded pivots_of(const Instance& c, const Bounded& x, const Matrix& d, int64_t tiles) {
  const int64_t r = d.columns();
  return multiply_added_to(columns_of(x, 0, r), columns_of(x, r, x.columns), d,
                           rounding(c, d.rows(), tiles));
}

inline Bounded expected_input_pivots(const Instance& c, const Bounded& x, const Operands& in) {
  const Bounded t = pivots_of(c, x, in.at("d"), c.tiling["BK"]);
  return multiply(t, in.at("a"), rounding(c, c.shape.r, c.tiling["Br"]));
}

inline Bounded expected_output_pivots(const Instance& c, const Bounded& x, const Operands& in) {
  const Bounded z = multiply(x, in.at("a"), rounding(c, c.shape.K, c.tiling["BK"]));
  return append_columns(z, multiply(z, in.at("c"), rounding(c, c.shape.r, c.tiling["Br"])));
}

// Computes an MLP from the inputs of gate and up. The MLP may have output pivots.
inline Bounded mlp_of(const Instance& c, const Bounded& to_gate, const Bounded& to_up,
                      const Operands& in) {
  const DType sums = c.options.accumulate;
  Rounding rounding_up = rounding(c, to_gate.columns, c.tiling["up.BK"]);
  rounding_up.result = sums;
  const Bounded h = gated(multiply(to_gate, in.at("w_gate"), rounding_up),
                          multiply(to_up, in.at("w_up"), rounding_up), sums, c.options.dtype);
  const Bounded z = multiply(h, in.at("w_down"), rounding(c, c.shape.N, c.tiling["down.BK"]));
  if (!in.contains("c")) return z;
  return append_columns(z, multiply(z, in.at("c"), rounding(c, c.shape.s, c.tiling["out.Br"])));
}

inline Bounded expected_narrow_mlp(const Instance& c, const Bounded& x, const Operands& in) {
  const Bounded t = in.contains("d") ? pivots_of(c, x, in.at("d"), c.tiling["in.BK"]) : x;
  return mlp_of(c, t, t, in);
}

// Computes an MLP with two copies of X, of which the first is gate's.
inline Bounded expected_pivoted_mlp(const Instance& c, const Bounded& x, const Operands& in) {
  const int64_t tiles = c.tiling["in.BK"];
  return mlp_of(c, pivots_of(c, x, in.at("d_gate"), tiles),
                pivots_of(c, Bounded(in.at("x_up")), in.at("d_up"), tiles), in);
}

// Returns the matrix of one expert, which has `rows` rows.
inline Matrix matrix_of_expert(const Matrix& all, int64_t expert, int64_t rows) {
  Matrix one(rows, all.columns());
  std::copy_n(all.row(expert * rows), rows * all.columns(), one.data());
  return one;
}

// Returns the output of one expert: dense or low-rank, as its weights are. No result but H and the
// strips is rounded.
inline Bounded expected_expert(const Instance& c, const Bounded& x, const Operands& in,
                               int64_t expert) {
  const auto times = [&](const Bounded& left, const char* name, DType result) {
    Rounding whole = rounding(c, left.columns, 0);
    whole.result = result;
    return multiply(left, matrix_of_expert(in.at(name), expert, left.columns), whole);
  };
  const bool dense = in.contains("w_gate");
  const DType strip = c.options.dtype;
  const Bounded gate = dense ? times(x, "w_gate", DType::kF32)
                             : times(times(x, "u_gate", strip), "v_gate", DType::kF32);
  const Bounded up =
      dense ? times(x, "w_up", DType::kF32) : times(times(x, "u_up", strip), "v_up", DType::kF32);
  const Bounded h = gated(gate, up, DType::kF32, strip);
  return dense ? times(h, "w_down", DType::kF32)
               : times(times(h, "u_down", strip), "v_down", DType::kF32);
}

// Adds the experts' outputs in fp32 and rounds the sums once.
inline Bounded expected_moe_mlp(const Instance& c, const Bounded& x, const Operands& in) {
  const Matrix &experts = in.at("experts"), &shares = in.at("shares");
  Bounded sum(x.rows, c.shape.K);
  std::vector<double> terms(sum.value.size());
  for (int64_t d = 0; d < experts.columns(); ++d) {
    const Bounded one = expected_expert(c, x, in, static_cast<int64_t>(experts.row(0)[d]));
    for (size_t i = 0; i < terms.size(); ++i) {
      const auto share = static_cast<double>(shares.row(static_cast<int64_t>(i) / c.shape.K)[d]);
      sum.value[i] += share * one.value[i];
      sum.error[i] += std::fabs(share) * one.error[i];
      terms[i] += std::fabs(share) * (std::fabs(one.value[i]) + one.error[i]);
    }
  }
  const double additions = static_cast<double>(experts.columns() + 1) * kFp32;
  const double stored = c.options.dtype == DType::kBF16 ? kBf16 : kFp32;
  for (size_t i = 0; i < terms.size(); ++i) sum.error[i] += 1.02 * (additions + stored) * terms[i];
  return sum;
}

struct Expected {
  // The tokens are the rows.
  Bounded (*values)(const Instance&, const Bounded& x, const Operands&);
  std::string_view python;  // An expression over the operands as they lie in HBM.
  // The expression with a natural left operand, if that is an option.
  std::string_view natural = {};
  std::string_view functions = {};  // The functions of torch that it calls, separated by blanks.
};

// Every kernel must be listed here. A new one needs an entry with what it computes.
inline const std::map<std::string_view, Expected>& all_expected() {
  constexpr Expected kMatmul = {expected_matmul, "x.T @ w", "x @ w"};
  static const std::map<std::string_view, Expected> all = {
      {"matmul_tiled", kMatmul},
      {"matmul_hoisted", kMatmul},
      {"matmul_blocked", kMatmul},
      {"matmul_optimized", kMatmul},
      {"matmul_fixed_order", kMatmul},
      {"xuv", {expected_chain, "x @ u @ v"}},
      {"xtuv", {expected_chain, "x.T @ u @ v"}},
      {"xuv_transposed", {expected_chain, "(x @ u @ v).T"}},
      {"xtuv_transposed", {expected_chain, "(x.T @ u @ v).T"}},
      {"xuv_sequential", {expected_chain, "x.T @ u @ v"}},
      {"xuv_naive", {expected_chain, "x.T @ u @ v"}},
      {"xuv_pivoted", {expected_input_pivots, "(x[:, :r] + x[:, r:] @ d) @ a"}},
      {"xtuv_pivoted", {expected_input_pivots, "(x.T[:, :r] + x.T[:, r:] @ d) @ a"}},
      {"xuv_pivoted_out",
       {expected_output_pivots, "concatenate((z := x @ a, z @ c), 1)", {}, "concatenate"}},
      {"xtuv_pivoted_out",
       {expected_output_pivots, "concatenate((z := x.T @ a, z @ c), 1)", {}, "concatenate"}},
      {"mlp_up",
       {expected_mlp_up, "(silu(x @ u_gate @ v_gate) * (x @ u_up @ v_up)).T", {}, "silu"}},
      {"mlp",
       {expected_mlp,
        "(silu(x @ u_gate @ v_gate) * (x @ u_up @ v_up)) @ u_down @ v_down",
        {},
        "silu"}},
      {"dense_mlp", {expected_dense_mlp, "(silu(x @ w_gate) * (x @ w_up)) @ w_down", {}, "silu"}},
      {"narrow_mlp",
       {expected_narrow_mlp,
        "concatenate((z := (silu((t := x[:, :r] + x[:, r:] @ d) @ w_gate) * (t @ w_up)) @ w_down, "
        "z @ c), 1)",
        {},
        "concatenate silu"}},
      {"narrow_mlp_in",
       {expected_narrow_mlp,
        "(silu((t := x[:, :r] + x[:, r:] @ d) @ w_gate) * (t @ w_up)) @ w_down",
        {},
        "silu"}},
      {"narrow_mlp_out",
       {expected_narrow_mlp,
        "concatenate((z := (silu(x @ w_gate) * (x @ w_up)) @ w_down, z @ c), 1)",
        {},
        "concatenate silu"}},
      {"pivoted_mlp",
       {expected_pivoted_mlp,
        "concatenate((z := (silu((x_gate[:, :r] + x_gate[:, r:] @ d_gate) @ w_gate) * "
        "((x_up[:, :r] + x_up[:, r:] @ d_up) @ w_up)) @ w_down, z @ c), 1)",
        {},
        "concatenate silu"}},
      {"dense_moe_mlp",
       {expected_moe_mlp,
        "sum(s[:, None] * ((silu(x @ w_gate[e * K:e * K + K]) * (x @ w_up[e * K:e * K + K])) @ "
        "w_down[e * N:e * N + N]) for s, e in zip(shares.T, map(int, experts[0])))",
        {},
        "silu"}},
      {"moe_mlp",
       {expected_moe_mlp,
        "sum(s[:, None] * ((silu(x @ u_gate[e * K:e * K + K] @ v_gate[e * r:e * r + r]) * "
        "(x @ u_up[e * K:e * K + K] @ v_up[e * r:e * r + r])) @ u_down[e * N:e * N + N] @ "
        "v_down[e * r:e * r + r]) for s, e in zip(shares.T, map(int, experts[0])))",
        {},
        "silu"}},
      {"pivoted_mlp_in",
       {expected_pivoted_mlp,
        "(silu((x_gate[:, :r] + x_gate[:, r:] @ d_gate) @ w_gate) * "
        "((x_up[:, :r] + x_up[:, r:] @ d_up) @ w_up)) @ w_down",
        {},
        "silu"}}};
  return all;
}

inline const Expected& expected_of(const Kernel& kernel) {
  static const Expected none = {};
  const auto found = all_expected().find(kernel.name);
  EXPECT_NE(found, all_expected().end()) << kernel.name << ": add it to expected.h";
  return found == all_expected().end() ? none : found->second;
}

inline std::string_view python_of(const Kernel& kernel, Layout left) {
  const Expected& expected = expected_of(kernel);
  return kernel.left_layout && left == Layout::kNatural ? expected.natural : expected.python;
}

inline bool is_transposed(const Instance& c, std::string_view operand) {
  return layout_of(*c.kernel, operand_of(*c.kernel, operand), c.options).transposed();
}

// Returns the expected values with tokens as rows, whatever the layouts in HBM.
inline Bounded expected_values(const Instance& c, const Operands& in) {
  const std::string first(c.kernel->operands.front().name);  // X, or its first copy.
  const Bounded x(is_transposed(c, first) ? transpose(in.at(first)) : in.at(first));
  const Expected& expected = expected_of(*c.kernel);
  return expected.values == nullptr ? Bounded(0, 0) : expected.values(c, x, in);
}

// Returns the numbers of D different experts of E, in random order.
inline Matrix random_numbers(int64_t E, int64_t D, std::mt19937& random) {
  std::vector<int64_t> all(static_cast<size_t>(E));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  std::shuffle(all.begin(), all.end(), random);
  Matrix numbers(1, D);
  for (int64_t d = 0; d < D; ++d)
    numbers.row(0)[d] = static_cast<float>(all[static_cast<size_t>(d)]);
  return numbers;
}

// Returns shares between 0 and 1, of which about half are 0.
inline Matrix random_shares(int64_t tokens, int64_t D, std::mt19937& random) {
  std::uniform_real_distribution<float> share(-1.0f, 1.0f);
  Matrix shares(tokens, D);
  for (int64_t i = 0; i < tokens * D; ++i) shares.data()[i] = std::max(0.0f, share(random));
  return shares;
}

// Returns an operand. Inputs have values of about 1, and weights are scaled down so that results
// do, too.
inline Matrix random_operand(const Instance& c, const OperandDescription& operand,
                             std::mt19937& random) {
  const MatrixLayout layout = layout_of(*c.kernel, operand, c.options);
  const Shape shape = shape_of(c.shape, layout);
  if (operand.kind == OperandKind::kExperts) return random_numbers(c.shape.E, c.shape.D, random);
  if (operand.kind == OperandKind::kShares) return random_shares(shape[0], shape[1], random);
  const int64_t terms = dimension_of(c.shape, contraction_of(layout.rows));
  const double scale = layout.has_tokens() ? 1.0 : 1.0 / std::sqrt(static_cast<double>(terms));
  return random_matrix(shape[0], shape[1], scale, c.options.dtype, random);
}

inline Operands random_operands(const Instance& c, std::mt19937& random) {
  Operands operands;
  for (const OperandDescription& operand : c.kernel->operands) {
    if (operand.role != tile::HbmRole::kInput) continue;
    operands.emplace(operand.name, random_operand(c, operand, random));
  }
  return operands;
}

// Returns sizes around the tiles, a random tiling, and every dtype in turn.
inline Instance random_instance(const Kernel& kernel, int64_t index, std::mt19937& random) {
  const auto pick = [&random](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  // A size is tiny, up to a tile or two, or several tiles and a bit.
  const auto size = [&pick] {
    const int64_t most[] = {3, 260, 260, 600};
    return pick(1, most[pick(0, 3)]);
  };
  Instance c{.kernel = &kernel,
             .shape = {.M = size(), .K = size(), .r = size(), .N = size(), .s = size()},
             .options = {},
             .tiling = {}};
  if (index == 0) c.shape.M = 1;
  c.shape = suited(kernel, c.shape);
  TilingValues chosen;
  for (const TilingParameter& parameter : kernel.tiling) {
    const int64_t most =
        parameter.dimension == 0 ? parameter.most : std::min<int64_t>(parameter.most, 5);
    chosen.emplace_back(parameter.name, pick(parameter.least, most));
  }
  c.tiling = tiling_of(kernel, chosen).value();
  if (pick(0, 3) > 0) make_contiguous(c.tiling, c.shape);
  if (index % 3 == 1) c.options.accumulate = DType::kBF16;
  if (index % 3 == 2) c.options.dtype = DType::kF32;
  if (kernel.left_layout && pick(0, 1) == 1) c.options.left = Layout::kNatural;
  return c;
}

inline std::string to_string(const Instance& c) {
  std::string tiling;
  for (const auto& [name, value] : c.tiling.values()) tiling += fmt::format(" {}={}", name, value);
  return fmt::format("{} {}{} {} accumulate {} natural {}", c.kernel->name,
                     shape_sizes(*c.kernel, c.shape), tiling, dtype_name(c.options.dtype),
                     dtype_name(c.options.accumulate), c.options.left == Layout::kNatural);
}

inline std::vector<const Kernel*> all_kernels() {
  std::vector<const Kernel*> all;
  for (const Kernel& kernel : kernels()) all.push_back(&kernel);
  return all;
}

}  // namespace neuronmm::kernels
