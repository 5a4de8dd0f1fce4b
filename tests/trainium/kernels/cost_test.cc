// Compares the closed formulas with published traffic and with a walk of the programs.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trainium/kernels/registry.h"
#include "trainium/tile/counts.h"

namespace neuronmm::kernels {
namespace {

const Kernel& kernel(std::string_view name) { return *find_kernel(name).value(); }

// Returns the program's own counts, and checks that the formula gives the same.
tile::Counts counted(std::string_view name, const KernelShape& shape, const KernelOptions& options,
                     const TilingValues& chosen = {}) {
  const Kernel& k = kernel(name);
  const Tiling tiling = tiling_of(k, chosen).value();
  const tile::Counts counts = tile::count(make_program(k, shape, tiling, options).value());
  const Cost cost = k.cost(shape, tiling, options);
  EXPECT_EQ(counts.hbm_read_bytes, cost.hbm_read_bytes) << name;
  EXPECT_EQ(counts.hbm_write_bytes, cost.hbm_write_bytes) << name;
  EXPECT_EQ(counts.nc_matmuls, cost.nc_matmuls) << name;
  EXPECT_EQ(counts.matmul_flops, cost.flops) << name;
  return counts;
}

// The shapes are those of NeuronMM's chart (README of Jerry2423/neuron-mm): X [M, K], U [K, r] and
// V [r, N] in bf16. The chart shows about 7.47 GiB at M = 32768. The loop nest gives the values
// below.
TEST(Traffic, NeuronMmMovesThePublishedBytesAtAllRows) {
  const double expected_gib[] = {0.234375, 0.46875, 0.9375, 1.875, 3.75, 7.5};
  int64_t rows = 1024;
  for (const double gib : expected_gib) {
    for (const DType accumulate : {DType::kF32, DType::kBF16}) {
      const tile::Counts counts =
          counted("xuv", {rows, 8192, 4096, 16384}, {.accumulate = accumulate});
      const auto bytes = static_cast<double>(counts.hbm_read_bytes + counts.hbm_write_bytes);
      EXPECT_EQ(bytes / (1 << 30), gib) << rows;
    }
    rows *= 2;
  }
}

TEST(Traffic, BaselinesMoveTheirBytesWithoutSpills) {
  // X·W at M = 32768 moves 9.25 GiB without spills.
  const KernelOptions bf16_sums{.accumulate = DType::kBF16};
  const tile::Counts xw =
      counted("matmul_optimized", {32768, 8192, 0, 16384}, bf16_sums, {{"BM", 8}});
  EXPECT_EQ(xw.hbm_read_bytes + xw.hbm_write_bytes, int64_t{37} << 28);
  const tile::Counts fixed = counted("matmul_fixed_order", {32768, 8192, 0, 16384}, bf16_sums);
  EXPECT_EQ(fixed.hbm_read_bytes + fixed.hbm_write_bytes, int64_t{13} << 30);
  counted("xuv_sequential", {32768, 8192, 4096, 16384}, bf16_sums, {{"BM", 8}});
}

// The tutorial multiplies [4096, 8192] x [8192, 8192] (Matrix Multiplication, AWS Neuron
// documentation).
TEST(Traffic, TutorialVersionsMoveThePublishedBytes) {
  const KernelShape shape{4096, 8192, 0, 8192};
  const auto gigabytes = [](int64_t bytes) { return static_cast<double>(bytes) * 1e-9; };
  const tile::Counts tiled = counted("matmul_tiled", shape, {});
  EXPECT_NEAR(gigabytes(tiled.hbm_read_bytes), 5.369, 0.0005);
  EXPECT_NEAR(gigabytes(tiled.hbm_write_bytes), 0.067, 0.0005);
  EXPECT_EQ(tiled.nc_matmuls, 32768);
  EXPECT_NEAR(gigabytes(counted("matmul_hoisted", shape, {}).hbm_read_bytes), 4.362, 0.0005);
  EXPECT_NEAR(gigabytes(counted("matmul_blocked", shape, {}).hbm_read_bytes), 2.215, 0.0005);
  EXPECT_NEAR(gigabytes(counted("matmul_optimized", shape, {}).hbm_read_bytes), 0.671, 0.0005);
  // The fp32 versions move twice as much.
  const KernelOptions fp32{.dtype = DType::kF32};
  EXPECT_NEAR(gigabytes(counted("matmul_tiled", shape, fp32).hbm_read_bytes), 10.74, 0.005);
  EXPECT_NEAR(gigabytes(counted("matmul_hoisted", shape, fp32).hbm_read_bytes), 8.72, 0.005);
}

// NKIBench (zhang677/AccelOpt) profiled the bytes of transpose_matmul on trn1 in fp32. The kernel
// has blocks of 1024 rows and reads the right operand once per block.
TEST(Traffic, NkiBenchTransposeMatmulToTheByte) {
  const tile::Counts counts = counted("matmul_blocked", {4096, 2048, 0, 10944},
                                      {.dtype = DType::kF32}, {{"BM", 8}, {"BN", 1}});
  EXPECT_EQ(counts.hbm_read_bytes, 392'167'424);
  EXPECT_EQ(counts.hbm_write_bytes, 179'306'496);
}

TEST(Counts, MatmulsAreAsManyAsPublished) {
  EXPECT_EQ(counted("matmul_optimized", {2048, 2048, 0, 2048}, {}).nc_matmuls, 1024);
}

// The paper's naive fusion computes the strip 16 times, which is 4 times the FLOPs at this shape.
TEST(Counts, NaiveFusionRecomputesTheStrip) {
  const KernelShape shape{4096, 2048, 1280, 8192};
  const tile::Counts naive = counted("xuv_naive", shape, {}, {{"BN", 1}});
  const tile::Counts fused = counted("xuv", shape, {}, {{"BN", 1}});
  EXPECT_EQ(naive.matmul_flops, 4 * fused.matmul_flops);
}

// Pivots need r² fewer multiplications per row than U·V, and r² fewer elements of weights per block
// of rows. At this shape they save a sixth of the FLOPs.
TEST(Counts, PivotsSaveTheSquareOfTheRank) {
  const KernelShape shape{4096, 8192, 4096, 16384};
  const tile::Counts uv = counted("xuv", shape, {});
  for (const char* name : {"xuv_pivoted", "xtuv_pivoted", "xuv_pivoted_out", "xtuv_pivoted_out"}) {
    const tile::Counts pivoted = counted(name, shape, {});
    EXPECT_EQ(6 * pivoted.matmul_flops, 5 * uv.matmul_flops);
    EXPECT_EQ(uv.hbm_read_bytes - pivoted.hbm_read_bytes, int64_t{4} * 2 * 4096 * 4096);
    EXPECT_EQ(uv.hbm_write_bytes, pivoted.hbm_write_bytes);
  }
}

// With pivots of almost all columns, a narrow MLP is nearly the dense one.
TEST(Counts, InputAndOutputPivotsSaveTheirShare) {
  const int64_t M = 512, K = 2048, N = 8192, r = 1536, s = 1280;
  const int64_t dense = counted("dense_mlp", {M, K, 0, N}, {}).matmul_flops;
  const int64_t in = counted("narrow_mlp_in", {M, K, r, N}, {}).matmul_flops;
  const int64_t out = counted("narrow_mlp_out", {M, K, 0, N, s}, {}).matmul_flops;
  EXPECT_EQ(dense - in, 2 * M * (2 * N - r) * (K - r));
  EXPECT_EQ(dense - out, 2 * M * (N - s) * (K - s));
  EXPECT_EQ(counted("narrow_mlp", {M, K, r, N, s}, {}).matmul_flops, in + out - dense);
}

// Separate pivots of gate and up need a second D and a second copy of X. Compared with three
// factors of the same rank, they save the square of the rank three times.
TEST(Counts, SeparatePivotsReadAnotherMapAndXAgain) {
  const int64_t M = 512, K = 2048, N = 8192, r = 1536, s = 1280;
  const tile::Counts shared = counted("narrow_mlp", {M, K, r, N, s}, {});
  const tile::Counts separate = counted("pivoted_mlp", {M, K, r, N, s}, {});
  EXPECT_EQ(separate.matmul_flops - shared.matmul_flops, 2 * M * r * (K - r));
  EXPECT_EQ(separate.hbm_read_bytes - shared.hbm_read_bytes, 2 * (M * K + r * (K - r)));
  EXPECT_EQ(separate.hbm_write_bytes, shared.hbm_write_bytes);
  EXPECT_EQ(counted("mlp", {M, K, s, N}, {}).matmul_flops -
                counted("pivoted_mlp", {M, K, s, N, s}, {}).matmul_flops,
            2 * M * 3 * s * s);
  const tile::Counts in = counted("pivoted_mlp_in", {M, K, r, N}, {});
  EXPECT_EQ(in.matmul_flops - separate.matmul_flops, 2 * M * (N - s) * (K - s));
}

TEST(Counts, ChipResidentHiddenStateSavesItsRoundTrip) {
  const KernelShape shape{512, 2048, 1280, 8192};
  const tile::Counts through = counted("mlp", shape, {});
  const tile::Counts resident = counted("mlp", shape, {}, {{"h_on_chip", 1}});
  EXPECT_EQ(through.hbm_read_bytes - resident.hbm_read_bytes, 2 * 512 * 8192);
  EXPECT_EQ(through.hbm_write_bytes - resident.hbm_write_bytes, 2 * 512 * 8192);
}

}  // namespace
}  // namespace neuronmm::kernels
