// Compares the bound that the search prunes with with the timing model. The counts that the bound
// rests on are compared with a walk of every instruction.

#include "trainium/simulator/bound.h"

#include <random>

#include <gtest/gtest.h>

#include "problems.h"
#include "trainium/kernels/shapes.h"
#include "trainium/simulator/timing.h"
#include "trainium/tile/counts.h"
#include "trainium/tile/walk.h"
#include "trainium/tuner/cache.h"
#include "trainium/tuner/search_space.h"

namespace neuronmm::tuner {
namespace {

using kernels::Kernel;
using tile::Program;

// Calls visit(problem, tiling, program) for random tilings of every kernel on ragged shapes. A
// third of the shapes have few rows, for which kernels have their own loops.
template <typename Visit>
void for_random_tilings(int shapes, int tilings, const Visit& visit) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  const auto size = [&random](int64_t most) {
    return std::uniform_int_distribution<int64_t>(1, most)(random);
  };
  for (const Kernel& kernel : kernels::kernels()) {
    for (int i = 0; i < shapes; ++i) {
      kernels::KernelShape shape = {size(1500), size(900), size(700), size(2500), size(700)};
      if (i % 3 == 2) shape.M = size(128), shape.K = 128 * size(6);
      shape = kernels::suited(kernel, shape);
      const Problem problem = problem_of(kernel.name, shape, random_options(kernel, random),
                                         i % 2 == 0 ? "trn1" : "trn2");
      for (int t = 0; t < tilings; ++t) {
        kernels::Tiling tiling = *kernels::tiling_of(kernel, {});
        for (const kernels::TilingParameter& parameter : kernel.tiling) {
          const auto values = values_to_try(parameter, problem.shape, problem.options);
          tiling.set(parameter.name, values[random() % values.size()]);
        }
        SCOPED_TRACE(fmt::format("seed {}: {} {}", seed, key_of(problem), tiling_text(tiling)));
        visit(problem, tiling,
              *kernels::make_program(kernel, problem.shape, tiling, problem.options));
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(DistinctIterations, TheirCountsEqualThoseOfAWalk) {
  for_random_tilings(4, 4, [](const Problem&, const kernels::Tiling&, const Program& program) {
    tile::Counts distinct;
    tile::for_each_distinct(program, [&](const tile::Instruction& instruction,
                                         std::span<const int64_t> values, int64_t times) {
      tile::Counts one;
      one.add(program, instruction, values);
      distinct.hbm_read_bytes += times * one.hbm_read_bytes;
      distinct.hbm_write_bytes += times * one.hbm_write_bytes;
      distinct.dma_copies += times * one.dma_copies;
      distinct.nc_matmuls += times * one.nc_matmuls;
      distinct.nc_transposes += times * one.nc_transposes;
      distinct.matmul_flops += times * one.matmul_flops;
      distinct.instructions += times;
    });
    EXPECT_EQ(distinct, tile::count(program));
  });
}

// Without spills, no program is faster than its bound. The Tensor engine's part of the bound is
// what the simulation measures.
TEST(Bound, NoSimulationIsFasterThanItsBound) {
  for_random_tilings(4, 4, [](const Problem& p, const kernels::Tiling&, const Program& program) {
    const auto timing = simulator::simulate(program, p.device);
    if (!timing.ok() || !timing->remedies.empty()) return;
    const simulator::Bound bound = simulator::bound(program, p.device);
    const double ns = timing->summary.total_time * 1e9;
    EXPECT_LE(bound.ns(), ns);
    EXPECT_GE(bound.ns(), ns / 100);
    const double tensor = timing->summary.tensor.instruction_time * 1e9;
    EXPECT_NEAR(bound.tensor_ns, tensor, 1e-9 * tensor);
  });
}

// Sixteen engines share the time of the packets, and none works while no transfer moves data.
TEST(Summary, DmaIsActiveWhileItsEnginesAre) {
  for_random_tilings(4, 2, [](const Problem& p, const kernels::Tiling&, const Program& program) {
    const auto timing = simulator::simulate(program, p.device);
    if (!timing.ok()) return;  // The program does not fit.
    const simulator::Summary& s = timing->summary;
    EXPECT_GE(s.dma_active_time, s.dma_packet_time / p.device.dma_engines * (1 - 1e-9));
    EXPECT_LE(s.dma_active_time, s.total_time);
  });
}

// A simulation gives up if and only if the program takes longer than the limit.
TEST(Bound, OnlyProgramsThatTakeLongerAreGivenUp) {
  for_random_tilings(3, 2, [](const Problem& p, const kernels::Tiling&, const Program& program) {
    const auto timing = simulator::simulate(program, p.device);
    if (!timing.ok() || !timing->remedies.empty()) return;
    const double ns = timing->summary.total_time * 1e9;
    for (const double share : {0.3, 0.999, 1.0, 1.001}) {
      simulator::TimingOptions options;
      options.longest_ns = share * ns;
      const auto again = simulator::simulate(program, p.device, options);
      ASSERT_TRUE(again.ok());
      EXPECT_EQ(again->gave_up, share < 1) << share;
      if (share >= 1) {
        EXPECT_EQ(again->summary.total_time, timing->summary.total_time);
      }
    }
  });
}

}  // namespace
}  // namespace neuronmm::tuner
