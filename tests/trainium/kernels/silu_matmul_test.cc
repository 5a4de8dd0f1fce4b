// Checks the worked example of docs/guide/write_a_kernel.md, silu_matmul.cc. It must do what the
// page says, and the page must quote the marked parts of the file.

#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "places.h"
#include "trainium/kernels/expected.h"
#include "trainium/kernels/registry.h"
#include "trainium/reference/python.h"
#include "trainium/reference/values.h"
#include "trainium/simulator/interpreter.h"
#include "trainium/tile/checker.h"
#include "trainium/tile/counts.h"

namespace neuronmm::kernels {

std::vector<Kernel> silu_matmul_kernels();

namespace {

std::string read(const std::string& path) {
  std::ifstream file(source_dir() / path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Returns the lines between "// [name]" and "// [/name]", without the indentation of the first
// mark.
std::string marked(const std::string& source, const std::string& name) {
  const size_t mark = source.find(fmt::format("// [{}]\n", name));
  const size_t begin = source.find('\n', mark) + 1;
  const size_t line = source.rfind('\n', mark) + 1;
  const size_t end = source.rfind('\n', source.find(fmt::format("// [/{}]\n", name))) + 1;
  std::istringstream lines(source.substr(begin, end - begin));
  std::string text;
  for (std::string each; std::getline(lines, each);) {
    text += (each.empty() ? each : each.substr(mark - line)) + "\n";
  }
  return text;
}

TEST(WorkedExample, TheDocumentQuotesTheSource) {
  const std::string page = read("docs/guide/write_a_kernel.md");
  const std::string source = read("tests/trainium/kernels/silu_matmul.cc");
  for (const char* part : {"head", "kernel", "cost", "entry"}) {
    const std::string quoted = marked(source, part);
    EXPECT_NE(page.find(quoted), std::string::npos)
        << "docs/guide/write_a_kernel.md does not quote:\n"
        << quoted;
  }
}

Instance random_case(const Kernel& kernel, bool fp32, std::mt19937& random) {
  const auto size = [&](int64_t most) {
    return std::uniform_int_distribution<int64_t>(1, most)(random);
  };
  return {.kernel = &kernel,
          .shape = {.M = size(300), .K = size(300), .r = 0, .N = size(1500)},
          .options = {.dtype = fp32 ? DType::kF32 : DType::kBF16},
          .tiling = tiling_of(kernel, {{"BN", size(3)}}).value()};
}

void expect_rules_and_counts(const Instance& c, const tile::Program& program) {
  const tile::CheckReport report = tile::check(program, {});
  EXPECT_TRUE(report.ok() && report.fits()) << report.violations.size();
  const tile::Counts counts = tile::count(program);
  const Cost cost = c.kernel->cost(c.shape, c.tiling, c.options);
  EXPECT_EQ(counts.hbm_read_bytes, cost.hbm_read_bytes);
  EXPECT_EQ(counts.hbm_write_bytes, cost.hbm_write_bytes);
  EXPECT_EQ(counts.matmul_flops, cost.flops);
  EXPECT_EQ(counts.nc_matmuls, cost.nc_matmuls);
}

// Compares the values with silu(X·W) written out by hand, and with the reference derived from the
// kernel's formula.
void expect_values(const Instance& c, const Operands& operands, const Matrix& y) {
  const Bounded x(transpose(operands.at("x")));
  const Bounded sums = multiply(x, operands.at("w"), {DType::kF32, DType::kF32, 1});
  const double unit = c.options.dtype == DType::kBF16 ? kBf16 : 16 * kFp32;
  for (int64_t m = 0; m < c.shape.M; ++m) {
    const reference::BoundedRow derived = reference::exact_row(c, operands, m);
    for (int64_t n = 0; n < c.shape.N; ++n) {
      const auto at = static_cast<size_t>(m * c.shape.N + n), j = static_cast<size_t>(n);
      const double s = sums.value[at], silu = s / (1 + std::exp(-s));
      const double bound = 1.1 * sums.error[at] + 1.02 * unit * (std::fabs(silu) + sums.error[at]);
      const auto found = static_cast<double>(y.row(m)[n]);
      ASSERT_LE(std::fabs(found - silu), bound) << at;
      ASSERT_NEAR(derived.value[j], silu, 1e-12);
      ASSERT_LE(std::fabs(found - derived.value[j]), derived.error[j]) << at;
      ASSERT_LE(derived.error[j], 1.3 * bound) << at;
    }
  }
}

TEST(WorkedExample, ValuesCountsAndRulesAreRight) {
  constexpr uint32_t kSeed = 7;
  std::mt19937 random(kSeed);
  const Kernel kernel = silu_matmul_kernels().front();
  for (int i = 0; i < 8; ++i) {
    const Instance c = random_case(kernel, i % 2 == 1, random);
    SCOPED_TRACE(fmt::format("seed {}, case {}: {}", kSeed, i, to_string(c)));
    const tile::Program program = make_program(kernel, c.shape, c.tiling, c.options).value();
    expect_rules_and_counts(c, program);
    const Operands operands = random_operands(c, random);
    simulator::Inputs inputs;
    for (const auto& [name, matrix] : operands) inputs.emplace(name, matrix.view());
    const auto found = simulator::interpret(program, inputs);
    ASSERT_TRUE(found.ok()) << found.error().message;
    expect_values(c, operands, found.value().outputs.at("y"));
  }
}

TEST(WorkedExample, TheFormulaGivesThePythonExpression) {
  const reference::Python python = reference::python(silu_matmul_kernels().front(), {});
  EXPECT_EQ(python.expression, "silu(x.T @ w)");
  EXPECT_EQ(python.functions, std::set<std::string>{"silu"});
}

}  // namespace
}  // namespace neuronmm::kernels
