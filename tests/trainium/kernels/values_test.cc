// Runs every kernel on random ragged shapes and tilings. Its values are compared with fp64 and its
// counts with the closed formulas. The checker must find no violation.

#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trainium/kernels/expected.h"
#include "trainium/kernels/registry.h"
#include "trainium/simulator/interpreter.h"
#include "trainium/tile/counts.h"

namespace neuronmm::kernels {
namespace {

void expect_values(const Instance& c, const Matrix& found, const Bounded& wanted) {
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
  // The elementwise bound adds up absolute values. Errors of random signs are far smaller, and
  // their rms is predictable, about 0.4 units per rounding. This holds if no dimension is so small
  // that a few terms may cancel.
  for (const char dimension : c.kernel->dimensions) {
    if (dimension_of(c.shape, dimension) < 32) return;
  }
  const double relative = std::sqrt(squared_error / squared);
  const bool fp32 = c.options.dtype == DType::kF32;
  const bool rounded_sums = c.options.accumulate == DType::kBF16;
  EXPECT_LE(relative, fp32 ? 2e-6 : (rounded_sums ? 3.0 : 1.5) * kBf16);
}

void run_case(const Instance& c, std::mt19937& random) {
  const Operands operands = random_operands(c, random);
  simulator::Inputs inputs;
  for (const auto& [name, matrix] : operands) inputs.emplace(name, matrix.view());
  const std::string output(output_of(*c.kernel).name);
  const auto program = make_program(*c.kernel, c.shape, c.tiling, c.options);
  ASSERT_TRUE(program.ok()) << program.error().message;
  const tile::CheckReport report = tile::check(*program, {});
  for (const tile::Violation& violation : report.violations) ADD_FAILURE() << violation.message;
  EXPECT_LE(report.psum.peak, 8);

  const auto result = simulator::interpret(*program, inputs);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const Matrix& found = result->outputs.at(output);
  expect_values(c, is_transposed(c, output) ? transpose(found) : found,
                expected_values(c, operands));

  const Cost cost = c.kernel->cost(c.shape, c.tiling, c.options);
  EXPECT_EQ(result->counts.hbm_read_bytes, cost.hbm_read_bytes);
  EXPECT_EQ(result->counts.hbm_write_bytes, cost.hbm_write_bytes);
  EXPECT_EQ(result->counts.nc_matmuls, cost.nc_matmuls);
  EXPECT_EQ(result->counts.matmul_flops, cost.flops);
  EXPECT_EQ(result->counts, tile::count(*program));
}

class KernelValues : public testing::TestWithParam<const Kernel*> {};

TEST_P(KernelValues, ValuesAndCountsAreRightOnRandomRaggedShapes) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  for (int64_t i = 0; i < 12; ++i) {
    const Instance c = random_instance(*GetParam(), i, random);
    SCOPED_TRACE(fmt::format("seed {} case {}: {}", seed, i, to_string(c)));
    run_case(c, random);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, KernelValues, testing::ValuesIn(all_kernels()),
                         [](const auto& instance) { return std::string(instance.param->name); });

}  // namespace
}  // namespace neuronmm::kernels
