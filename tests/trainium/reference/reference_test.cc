// Compares what is derived from the kernels' formulas with the same written out by hand for each
// kernel.

#include <cmath>
#include <iterator>
#include <random>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trainium/kernels/expected.h"
#include "trainium/reference/errors.h"
#include "trainium/reference/python.h"
#include "trainium/reference/values.h"

namespace neuronmm::reference {
namespace {

using kernels::Instance;
using kernels::Kernel;
using kernels::Layout;

class Reference : public testing::TestWithParam<const Kernel*> {};

TEST_P(Reference, ValuesAndBoundsAreThoseOfTheOracle) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  for (int64_t i = 0; i < 9; ++i) {
    const Instance instance = kernels::random_instance(*GetParam(), i, random);
    SCOPED_TRACE(fmt::format("seed {} case {}: {}", seed, i, to_string(instance)));
    const Operands operands = kernels::random_operands(instance, random);
    const kernels::Bounded wanted = kernels::expected_values(instance, operands);
    for (int64_t row = 0; row < wanted.rows; row += 1 + wanted.rows / 7) {
      const BoundedRow found = exact_row(instance, operands, row);
      ASSERT_EQ(std::ssize(found.value), wanted.columns);
      for (size_t j = 0; j < found.value.size(); ++j) {
        const size_t at = static_cast<size_t>(row * wanted.columns) + j;
        // The two sides sum in fp64 in the same order. The bound must be neither lost nor much too
        // large. It may be some per cent wider, because it propagates the rounding of silu as an
        // error, while the oracle adds up all roundings of the gated product.
        ASSERT_NEAR(found.value[j], wanted.value[at], 1e-12 + 1e-6 * wanted.error[at]);
        ASSERT_GE(found.error[j], 0.999 * wanted.error[at]);
        ASSERT_LE(found.error[j], 1.25 * wanted.error[at]);
      }
    }
  }
}

TEST_P(Reference, PythonIsWhatAPersonWouldWrite) {
  const Kernel& kernel = *GetParam();
  for (const Layout left : {Layout::kTransposed, Layout::kNatural}) {
    if (left == Layout::kNatural && !kernel.left_layout) continue;
    const Python found = python(kernel, {.left = left});
    EXPECT_EQ(found.expression, kernels::python_of(kernel, left));
    std::istringstream names{std::string(kernels::expected_of(kernel).functions)};
    const std::set<std::string> functions{std::istream_iterator<std::string>(names), {}};
    EXPECT_EQ(found.functions, functions);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Reference, testing::ValuesIn(kernels::all_kernels()),
                         [](const auto& instance) { return std::string(instance.param->name); });

Instance instance(std::string_view name, const kernels::KernelShape& shape,
                  const kernels::TilingValues& tiling = {}, DType sums = DType::kF32) {
  const Kernel* kernel = kernels::find_kernel(name).value();
  return {.kernel = kernel,
          .shape = shape,
          .options = {.accumulate = sums},
          .tiling = kernels::tiling_of(*kernel, tiling).value()};
}

// A rounding to bf16 adds 0.41 units. Roundings to fp32 do not count.
TEST(ReferenceErrors, TheExpectedErrorHasOneTermPerRounding) {
  const auto roundings = [](const Instance& instance) {
    return std::pow(expected_error(instance) / 0.41 * 256, 2);
  };
  const kernels::KernelShape matmul{64, 96, 0, 80}, low_rank{64, 96, 32, 80};
  EXPECT_NEAR(roundings(instance("matmul_tiled", matmul)), 1, 1e-3);
  EXPECT_NEAR(roundings(instance("xtuv", low_rank)), 2, 1e-3);
  // The roundings are those of two strips and the gated product.
  EXPECT_NEAR(roundings(instance("mlp_up", low_rank)), 3, 1e-3);
  EXPECT_NEAR(roundings(instance("mlp", low_rank)), 5, 1e-3);
  EXPECT_NEAR(roundings(instance("dense_mlp", matmul)), 2, 1e-3);
  EXPECT_NEAR(roundings(instance("xuv_pivoted", low_rank)), 2, 1e-3);
  // Z has one rounding, and 48 of the 80 columns have another for the product with C.
  EXPECT_NEAR(roundings(instance("xuv_pivoted_out", low_rank)), 1 + 48.0 / 80, 1e-3);
  // Sums of 4 blocks in bf16 add (4 + 1) / 2 roundings.
  EXPECT_NEAR(roundings(instance("matmul_optimized", {64, 512, 0, 80}, {{"BK", 1}}, DType::kBF16)),
              1 + 2.5, 1e-3);
  EXPECT_NEAR(tolerance(instance("xtuv", low_rank)), 5 * 0.41 * std::sqrt(2.0) / 256, 1e-6);
}

TEST(ReferenceFlops, EveryWeightIsMultipliedWithEveryRow) {
  const auto flops = [](std::string_view name, const kernels::KernelShape& shape) {
    return problem_flops(*kernels::find_kernel(name).value(), shape);
  };
  EXPECT_EQ(flops("matmul_tiled", {2, 3, 0, 5}), 2 * 2 * 3 * 5);
  EXPECT_EQ(flops("xuv_naive", {2, 3, 7, 5}), 2 * 2 * 7 * (3 + 5));
  EXPECT_EQ(flops("mlp_up", {2, 3, 7, 5}), 4 * 2 * 7 * (3 + 5));
  EXPECT_EQ(flops("mlp", {2, 3, 7, 5}), 6 * 2 * 7 * (3 + 5));
  EXPECT_EQ(flops("dense_mlp", {2, 3, 0, 5}), 6 * 2 * 3 * 5);
  EXPECT_EQ(flops("xuv_pivoted", {2, 13, 7, 5}), 2 * 2 * 7 * (13 + 5 - 7));
  EXPECT_EQ(flops("xuv_pivoted_out", {2, 3, 7, 15}), 2 * 2 * 7 * (3 + 15 - 7));
  EXPECT_EQ(flops("narrow_mlp", {2, 13, 7, 5, 4}), 2 * 2 * (7 * 6 + 5 * (14 + 4) + 4 * 9));
  // A token is multiplied with the experts of a mixture that it chooses.
  EXPECT_EQ(flops("dense_moe_mlp", {.M = 2, .K = 3, .N = 5, .E = 9, .A = 4, .D = 7}),
            6 * 2 * 4 * 3 * 5);
  EXPECT_EQ(flops("moe_mlp", {.M = 2, .K = 3, .r = 7, .N = 5, .E = 9, .A = 4, .D = 8}),
            6 * 2 * 4 * 7 * (3 + 5));
  EXPECT_EQ(flops("pivoted_mlp", {2, 13, 7, 5, 4}), 2 * 2 * (2 * 7 * (6 + 5) + 4 * (5 + 9)));
}

// The expression has brackets where Python needs them, and nowhere else.
TEST(ReferencePython, BracketsAreWhereTheyAreNeeded) {
  using namespace kernels;
  Kernel kernel = *find_kernel("matmul_tiled").value();
  const auto text = [&kernel](const Formula& formula) {
    kernel.formula = formula;
    return python_by_rows(kernel).expression;
  };
  const Formula x = operand("x");
  EXPECT_EQ(text(silu(product(x, "w"))), "silu(x @ w)");
  EXPECT_EQ(text(product(silu(x), "w")), "silu(x) @ w");
  EXPECT_EQ(text(product(times(x, x), "w")), "(x * x) @ w");
  EXPECT_EQ(text(times(x, product(x, "w"))), "x * (x @ w)");
  EXPECT_EQ(text(times(times(x, silu(x)), x)), "(x * silu(x)) * x");
  EXPECT_EQ(text(product(product_added_to(x, x, "w"), "w")), "(x + x @ w) @ w");
  EXPECT_EQ(text(times(x, product_added_to(first_columns(x, 'N'), other_columns(x, 'N'), "w"))),
            "x * (x[:, :N] + x[:, N:] @ w)");
  EXPECT_EQ(text(product(with_product_appended(x, "w"), "w")),
            "concatenate((z := x, z @ w), 1) @ w");
  const Formula shared = named(product(x, "w"), "t");
  EXPECT_EQ(text(times(silu(shared), product(shared, "w"))), "silu((t := x @ w)) * (t @ w)");
}

}  // namespace
}  // namespace neuronmm::reference
