// Every kernel on random ragged shapes and tilings: its values against fp64, its counts against the
// closed formulas, and the checker has nothing to say.

#include <map>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "oracle.h"
#include "trainium/kernels/registry.h"
#include "trainium/simulator/interpreter.h"
#include "trainium/tile/counts.h"

namespace neuronmm::kernels {
namespace {

struct Case {
  const Kernel* kernel;
  KernelShape shape;
  Tiling tiling;
  KernelOptions options;
};

int64_t blocks(int64_t size, int64_t tiles, int64_t tile) {
  return tile::ceil_div(size, tiles * tile);
}

// The rounding of a contraction over `size` in blocks of `tiles` x 128, whose result is kept in the
// operands' dtype.
Rounding rounding(const Case& c, int64_t size, int64_t tiles) {
  return {c.options.accumulate, c.options.dtype, blocks(size, tiles, 128)};
}

using Operands = std::map<std::string, Matrix>;

Matrix random_operand(const Case& c, const OperandDescription& operand, std::mt19937& random) {
  const auto dimension = [&c](char letter) {
    return letter == 'M'   ? c.shape.M
           : letter == 'K' ? c.shape.K
           : letter == 'r' ? c.shape.r
                           : c.shape.N;
  };
  const bool natural = c.kernel->left_layout && c.options.left == Layout::kNatural;
  const std::string_view layout = operand.name == "x" && natural ? "[M, K]" : operand.layout;
  const int64_t rows = dimension(layout[1]), columns = dimension(layout[4]);
  const int64_t contraction = layout[1] == 'M' ? columns : rows;
  const double scale =
      operand.name == "x" ? 1.0 : 1.0 / std::sqrt(static_cast<double>(contraction));
  return random_matrix(rows, columns, scale, c.options.dtype, random);
}

bool is_transposed(const Case& c, std::string_view operand) {
  for (const OperandDescription& description : c.kernel->operands) {
    if (description.name != operand) continue;
    if (operand == "x") {
      if (c.kernel->left_layout) return c.options.left == Layout::kTransposed;
      return description.layout == "[K, M]";
    }
    return description.layout == "[N, M]";
  }
  ADD_FAILURE() << operand;
  return false;
}

int64_t tiles_of(const Case& c, std::string_view name, int64_t otherwise) {
  for (const TilingParameter& parameter : c.kernel->tiling) {
    if (parameter.name == name) return c.tiling[name];
  }
  return otherwise;
}

Bounded expected_matmul(const Case& c, const Bounded& x, const Operands& in) {
  return multiply(x, in.at("w"), rounding(c, c.shape.K, tiles_of(c, "BK", 1 << 20)));
}

Bounded chain(const Case& c, const Bounded& x, const Matrix& u, const Matrix& v,
              const std::string& prefix, DType result) {
  const int64_t BK = c.tiling[prefix + "BK"], Br = tiles_of(c, prefix + "Br", BK);
  const Bounded strip = multiply(x, u, rounding(c, x.columns, BK));
  Rounding last = rounding(c, u.columns(), Br);
  last.result = result;
  return multiply(strip, v, last);
}

Bounded expected_hidden(const Case& c, const Bounded& x, const Operands& in,
                        const std::string& prefix) {
  const DType sums = c.options.accumulate;
  const Bounded gate = chain(c, x, in.at("u_gate"), in.at("v_gate"), prefix, sums);
  const Bounded up = chain(c, x, in.at("u_up"), in.at("v_up"), prefix, sums);
  return gated(gate, up, sums, c.options.dtype);
}

Bounded expected_dense_mlp(const Case& c, const Bounded& x, const Operands& in) {
  Rounding rounding_up = rounding(c, c.shape.K, c.tiling["up.BK"]);
  rounding_up.result = c.options.accumulate;
  const Bounded gate = multiply(x, in.at("w_gate"), rounding_up);
  const Bounded up = multiply(x, in.at("w_up"), rounding_up);
  const Bounded h = gated(gate, up, c.options.accumulate, c.options.dtype);
  return multiply(h, in.at("w_down"), rounding(c, c.shape.N, c.tiling["down.BK"]));
}

Bounded expected(const Case& c, const Operands& in) {
  const Bounded x(is_transposed(c, "x") ? transpose(in.at("x")) : in.at("x"));
  if (c.kernel->name == "mlp_up") return expected_hidden(c, x, in, "");
  if (c.kernel->name == "mlp") {
    const Bounded h = expected_hidden(c, x, in, "up.");
    return chain(c, h, in.at("u_down"), in.at("v_down"), "down.", c.options.dtype);
  }
  if (c.kernel->name == "dense_mlp") return expected_dense_mlp(c, x, in);
  if (!c.kernel->has_rank) return expected_matmul(c, x, in);
  return chain(c, x, in.at("u"), in.at("v"), "", c.options.dtype);
}

void expect_values(const Case& c, const Matrix& found, const Bounded& wanted) {
  ASSERT_EQ(found.rows(), wanted.rows);
  ASSERT_EQ(found.columns(), wanted.columns);
  double squared_error = 0, squared = 0, worst = 0;
  for (size_t i = 0; i < wanted.value.size(); ++i) {
    const double error = std::fabs(static_cast<double>(found.data()[i]) - wanted.value[i]);
    worst = std::max(worst, error / (wanted.error[i] + 1e-30));
    squared_error += error * error;
    squared += wanted.value[i] * wanted.value[i];
  }
  EXPECT_LE(worst, 1.0) << "of the elementwise bound";
  // The elementwise bound adds up absolute values; errors of random signs are far smaller, and
  // where no dimension is so small that a few terms may cancel, their rms is predictable: about 0.4
  // units per rounding.
  const int64_t rank = c.kernel->has_rank ? c.shape.r : c.shape.K;
  if (std::min({c.shape.M, c.shape.K, rank, c.shape.N}) < 32) return;
  const double relative = std::sqrt(squared_error / squared);
  const bool fp32 = c.options.dtype == DType::kF32;
  const bool rounded_sums = c.options.accumulate == DType::kBF16;
  EXPECT_LE(relative, fp32 ? 2e-6 : (rounded_sums ? 3.0 : 1.5) * kBf16);
}

void run_case(const Case& c, std::mt19937& random) {
  Operands operands;
  simulator::Inputs inputs;
  std::string output;
  for (const OperandDescription& operand : c.kernel->operands) {
    if (operand.role != tile::HbmRole::kInput) {
      output = operand.name;
      continue;
    }
    const std::string name(operand.name);
    operands.emplace(name, random_operand(c, operand, random));
    inputs.emplace(name, std::as_const(operands.at(name)).view());
  }
  const auto program = make_program(*c.kernel, c.shape, c.tiling, c.options);
  ASSERT_TRUE(program.ok()) << program.error().message;
  const tile::CheckReport report = tile::check(*program, {});
  for (const tile::Violation& violation : report.violations) ADD_FAILURE() << violation.message;
  EXPECT_LE(report.psum.peak, 8);

  const auto result = simulator::interpret(*program, inputs);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const Matrix& found = result->outputs.at(output);
  expect_values(c, is_transposed(c, output) ? transpose(found) : found, expected(c, operands));

  const Cost cost = c.kernel->cost(c.shape, c.tiling, c.options);
  EXPECT_EQ(result->counts.hbm_read_bytes, cost.hbm_read_bytes);
  EXPECT_EQ(result->counts.hbm_write_bytes, cost.hbm_write_bytes);
  EXPECT_EQ(result->counts.nc_matmuls, cost.nc_matmuls);
  EXPECT_EQ(result->counts.matmul_flops, cost.flops);
  EXPECT_EQ(result->counts, tile::count(*program));
}

Case random_case(const Kernel& kernel, int64_t index, std::mt19937& random) {
  const auto pick = [&random](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  // Sizes around the tiles: next to nothing, up to a tile or two, several tiles and a bit.
  const auto size = [&pick] {
    const int64_t most[] = {3, 260, 260, 600};
    return pick(1, most[pick(0, 3)]);
  };
  Case c{.kernel = &kernel, .shape = {size(), size(), size(), size()}, .tiling = {}, .options = {}};
  if (index == 0) c.shape.M = 1;
  std::vector<std::pair<std::string, int64_t>> chosen;
  for (const TilingParameter& parameter : kernel.tiling) {
    const int64_t most = parameter.dimension == 0 ? parameter.most : 5;
    chosen.emplace_back(parameter.name, pick(parameter.least, most));
  }
  c.tiling = tiling_of(kernel, chosen).value();
  if (index % 3 == 1) c.options.accumulate = DType::kBF16;
  if (index % 3 == 2) c.options.dtype = DType::kF32;
  if (kernel.left_layout && pick(0, 1) == 1) c.options.left = Layout::kNatural;
  return c;
}

class KernelValues : public testing::TestWithParam<const Kernel*> {};

TEST_P(KernelValues, RandomRaggedShapes) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  for (int64_t i = 0; i < 21; ++i) {
    const Case c = random_case(*GetParam(), i, random);
    std::string tiling;
    for (const auto& [name, value] : c.tiling.values())
      tiling += fmt::format(" {}={}", name, value);
    SCOPED_TRACE(
        fmt::format("seed {} case {}: {} M={} K={} r={} N={}{} {} accumulate {} natural {}", seed,
                    i, c.kernel->name, c.shape.M, c.shape.K, c.shape.r, c.shape.N, tiling,
                    dtype_name(c.options.dtype), dtype_name(c.options.accumulate),
                    c.options.left == Layout::kNatural));
    run_case(c, random);
    if (HasFailure()) return;
  }
}

std::vector<const Kernel*> all_kernels() {
  std::vector<const Kernel*> all;
  for (const Kernel& kernel : kernels()) all.push_back(&kernel);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, KernelValues, testing::ValuesIn(all_kernels()),
                         [](const auto& instance) { return std::string(instance.param->name); });

}  // namespace
}  // namespace neuronmm::kernels
