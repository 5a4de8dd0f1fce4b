// Checks that a tile program and the trace that it would leave take the same time and move the same
// bytes, to the last bit.

#include <algorithm>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trainium/devices.h"
#include "trainium/kernels/registry.h"
#include "trainium/kernels/shapes.h"
#include "trainium/simulator/residency.h"
#include "trainium/simulator/timing.h"
#include "trainium/trace/program_trace.h"
#include "trainium/trace/simulate.h"

namespace neuronmm::trace {
namespace {

using kernels::KernelShape;
using simulator::DeviceSpec;

// The shapes are small, ragged in every dimension, and larger than a tile in all of them.
const std::vector<KernelShape> kShapes = {{.M = 1, .K = 1024, .r = 256, .N = 1536, .s = 256},
                                          {.M = 500, .K = 1000, .r = 384, .N = 1700, .s = 256},
                                          {.M = 1024, .K = 1024, .r = 512, .N = 1024, .s = 512}};

class RoundTrip : public testing::TestWithParam<DType> {
 protected:
  void compare(const kernels::Kernel& kernel, const KernelShape& shape, const DeviceSpec& device) {
    const kernels::KernelOptions options{.dtype = GetParam()};
    const auto tiling =
        kernels::fitting_tiling(kernel, shape, options, {}, simulator::limits_of(device));
    if (!tiling.ok()) return;  // The kernel does not take such a shape.
    compare(kernel, shape, device, *tiling);
  }
  void compare(const kernels::Kernel& kernel, const KernelShape& shape, const DeviceSpec& device,
               const kernels::Tiling& tiling) {
    const kernels::KernelOptions options{.dtype = GetParam()};
    const auto program = kernels::make_program(kernel, shape, tiling, options);
    ASSERT_TRUE(program.ok()) << program.error().message;
    const auto expected = simulator::simulate(*program, device);
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    // The model's remedies for a program that does not fit have no counterpart in a trace.
    if (!expected->remedies.empty()) return;
    const std::vector<std::byte> bytes = trace_of(*program);
    const auto file = TraceFile::parse(bytes, "trace");
    ASSERT_TRUE(file.ok()) << file.error().message;
    const auto found =
        simulate(*file, device, {.timing = {}, .buffer_limits = buffer_limits_of(*program)});
    ASSERT_TRUE(found.ok()) << found.error().message;
    const auto a = expected->summary.fields(), b = found->timing.summary.fields();
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].second, b[i].second)
          << kernel.name << " on " << device.name << ", M " << shape.M << ": " << a[i].first;
    }
    ++compared_;
  }
  int compared_ = 0;
};

TEST_P(RoundTrip, EveryKernelTakesTheSameTimeAsItsTrace) {
  for (const kernels::Kernel& kernel : kernels::kernels()) {
    for (const DeviceSpec& device : simulator::devices()) {
      for (const KernelShape& shape : kShapes) {
        compare(kernel, kernels::suited(kernel, shape), device);
      }
    }
  }
  EXPECT_GT(compared_, 150);
}

// Kernels have other loops for up to 128 rows if their tiling asks for it.
TEST_P(RoundTrip, KernelsForFewRowsTakeTheSameTimeAsTheirTraces) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  const auto pick = [&random](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (const kernels::Kernel& kernel : kernels::kernels()) {
    kernels::Tiling tiling = *kernels::tiling_of(kernel, {});
    const auto asks = [](const kernels::TilingParameter& parameter) {
      return parameter.name.ends_with("contiguous");
    };
    if (std::ranges::none_of(kernel.tiling, asks)) continue;
    for (int i = 0; i < 20; ++i) {
      for (const kernels::TilingParameter& parameter : kernel.tiling) {
        const int64_t most = parameter.dimension == 0 ? parameter.most : 5;
        tiling.set(parameter.name, asks(parameter) ? 1 : pick(parameter.least, most));
      }
      KernelShape shape{pick(1, 128), 128 * pick(1, 8), pick(1, 700), pick(1, 3000), pick(1, 100)};
      shape = kernels::suited(kernel, shape);
      const DeviceSpec& device = simulator::devices()[static_cast<size_t>(pick(0, 2))];
      std::string text =
          fmt::format("seed {}: {} {}", seed, kernel.name, shape_sizes(kernel, shape));
      for (const auto& [name, value] : tiling.values()) text += fmt::format(" {}={}", name, value);
      SCOPED_TRACE(text);
      compare(kernel, shape, device, tiling);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(compared_, 40);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, RoundTrip, testing::Values(DType::kBF16, DType::kF32),
                         [](const auto& dtype) { return std::string(dtype_name(dtype.param)); });

// Without a limit, a tensor takes the memory that has been free longest. A kernel with two copies
// then fetches further ahead and can only become faster.
TEST(RoundTrip, FreeMemoryLetsLoadsRunAhead) {
  const auto kernel = kernels::find_kernel("matmul_tiled");
  ASSERT_TRUE(kernel.ok());
  const KernelShape shape{.M = 512, .K = 2048, .N = 1024};
  const auto tiling = kernels::tiling_of(**kernel, {});
  const auto program = kernels::make_program(**kernel, shape, *tiling, {});
  ASSERT_TRUE(program.ok());
  const std::vector<std::byte> bytes = trace_of(*program);
  const auto file = TraceFile::parse(bytes, "trace");
  const auto two = simulate(*file, simulator::kTrn1,
                            {.timing = {}, .buffer_limits = buffer_limits_of(*program)});
  const auto four = simulate(*file, simulator::kTrn1, {.timing = {}, .buffer_limits = {4, {}}});
  const auto free = simulate(*file, simulator::kTrn1);
  ASSERT_TRUE(two.ok() && four.ok() && free.ok());
  EXPECT_LT(four->timing.summary.total_time, two->timing.summary.total_time);
  EXPECT_LE(free->timing.summary.total_time, four->timing.summary.total_time);
  EXPECT_EQ(free->timing.summary.hbm_read_bytes, two->timing.summary.hbm_read_bytes);
}

}  // namespace
}  // namespace neuronmm::trace
