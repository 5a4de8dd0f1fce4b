// Checks that a kernel on several cores computes what it computes on one. Each core must move and
// multiply what the closed formulas say of its share.

#include "trainium/kernels/cores.h"

#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trainium/kernels/shapes.h"
#include "trainium/reference/values.h"
#include "trainium/simulator/interpreter.h"
#include "trainium/tile/checker.h"
#include "trainium/tile/counts.h"

namespace neuronmm::kernels {
namespace {

constexpr uint32_t kCoresSeed = 20261;

Instance random_instance(const Kernel& kernel, std::mt19937& random, int64_t cores) {
  const auto uniform = [&random](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  Instance made;
  made.kernel = &kernel;
  made.shape = {.M = cores * uniform(1, 140),
                .K = uniform(2, 400),
                .r = uniform(1, 300),
                .N = uniform(2, 600),
                .s = uniform(1, 200)};
  made.shape = suited(kernel, made.shape);
  if (kernel.experts) {
    made.shape.M = cores * (1 + made.shape.M % 8);
    made.shape.D = std::min(made.shape.D, made.shape.M / cores * made.shape.A);
  }
  if (uniform(0, 1) == 0) made.options.dtype = DType::kF32;
  if (kernel.left_layout && uniform(0, 1) == 0) made.options.left = Layout::kNatural;
  made.tiling = tiling_of(kernel, {}).value();
  for (const TilingParameter& parameter : kernel.tiling) {
    made.tiling.set(parameter.name, uniform(parameter.least, std::min<int64_t>(parameter.most, 3)));
  }
  return made;
}

std::vector<float> output(const tile::Program& program, const reference::Operands& operands) {
  simulator::Inputs inputs;
  for (const auto& [name, matrix] : operands) inputs.emplace(name, matrix.view());
  const auto result = simulator::interpret(program, inputs);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  if (!result.ok()) return {};
  const Matrix& y = result->outputs.begin()->second;
  return {y.data(), y.data() + y.rows() * y.columns()};
}

TEST(Cores, SeveralCoresComputeWhatOneDoes) {
  std::mt19937 random(kCoresSeed);
  for (const Kernel& kernel : kernels()) {
    for (const int64_t cores : {2, 3}) {
      const Instance made = random_instance(kernel, random, cores);
      SCOPED_TRACE(fmt::format("seed {}: {} {} on {} cores", kCoresSeed, kernel.name,
                               shape_sizes(kernel, made.shape), cores));
      const auto whole = make_program(kernel, made.shape, made.tiling, made.options);
      const auto split =
          make_program_on_cores(kernel, made.shape, made.tiling, made.options, cores);
      ASSERT_TRUE(whole.ok() && split.ok());
      EXPECT_TRUE(tile::check_structure(*split).ok());
      // A row is summed in the same order on every core, so the bits are the same.
      const reference::Operands operands = reference::random_operands(made, kCoresSeed);
      EXPECT_EQ(output(*whole, operands), output(*split, operands));
      const Cost share =
          kernel.cost(share_of_core(made.shape, cores).value(), made.tiling, made.options);
      const tile::Counts counts = tile::count(*split);
      EXPECT_EQ(counts.hbm_read_bytes, cores * share.hbm_read_bytes);
      EXPECT_EQ(counts.hbm_write_bytes, cores * share.hbm_write_bytes);
      EXPECT_EQ(counts.nc_matmuls, cores * share.nc_matmuls);
    }
  }
}

TEST(Cores, RowsMustDivideEvenly) {
  EXPECT_EQ(share_of_core({.M = 6}, 3).value().M, 2);
  const auto odd = share_of_core({.M = 7}, 2);
  ASSERT_FALSE(odd.ok());
  EXPECT_NE(odd.error().message.find("multiple of 2, found 7"), std::string::npos);
}

}  // namespace
}  // namespace neuronmm::kernels
