#include "trainium/validation/added.h"

#include <fmt/format.h>

#include "trainium/kernels/matmul.h"
#include "trainium/kernels/registry.h"
#include "trainium/validation/added_kernels.h"

namespace neuronmm::validation {

namespace {

using kernels::KernelShape;
using tile::Program;

constexpr std::string_view kStepOfAutocomp = "autocomp, examples/trn-tutorial/2_gemm_trace.py";
constexpr std::string_view kProfileTable = "AccelOpt NKIBench, profile_results.csv";
constexpr std::string_view kIssue25 = "nki-autotune, issue 25, wall clock";
constexpr std::string_view kLhsRhs = "nki-autotune, matmul_lhs_rhs";
constexpr std::string_view kGuide = "Profile a NKI kernel, screenshot";
constexpr std::string_view kProfileColumns =
    "NKI kernel optimization tutorial, profile screenshots";
// The tests of this library state targets that a change must not miss. We assume that the unit is
// picoseconds.
constexpr std::string_view kTarget = "nki-library, tests of its MLP kernels: a target";

Published added_row(PublishedProgram program, Quantity quantity, double value,
                    std::string_view source, double tolerance = 0) {
  return {.program = std::move(program),
          .quantity = quantity,
          .value = value,
          .tolerance = tolerance,
          .set = Set::kAdded,
          .source = source};
}

// The tutorial's last kernel with its own blocks, at the shapes of issue 25.
PublishedProgram tutorial_at(int64_t M, int64_t N, int64_t K) {
  return {.id = fmt::format("tutorial_{}_{}_{}", M, N, K),
          .kernel = "tutorial, fully optimised",
          .shape = {.M = M, .K = K, .r = 0, .N = N},
          .device = "trn1",
          .dtype = DType::kBF16,
          .make = [](const PublishedProgram& p) {
            return kernels::matmul_optimized(
                p.shape, kernels::Tiling({{"BM", 16}, {"BN", 2}, {"BK", 8}}),
                {.dtype = p.dtype, .accumulate = p.dtype, .left = kernels::Layout::kTransposed});
          }};
}

PublishedProgram gemm_step(std::string_view id, std::string_view kernel,
                           Program (*make)(const PublishedProgram&)) {
  return {.id = std::string(id),
          .kernel = kernel,
          .shape = {.M = 4096, .K = 8192, .r = 0, .N = 8192},
          .device = "trn1",
          .dtype = DType::kBF16,
          .make = make};
}

PublishedProgram fixed_shape_program(std::string_view id, std::string_view kernel,
                                     const KernelShape& shape, std::string_view device, DType dtype,
                                     Program (*make)(const PublishedProgram&)) {
  return {.id = std::string(id),
          .kernel = kernel,
          .shape = shape,
          .device = device,
          .dtype = dtype,
          .make = make};
}

// A SwiGLU layer for one token on one core. The RMSNorm before it is left out, because the loads of
// the weights hide it.
PublishedProgram decode_mlp(int64_t hidden, int64_t intermediate, std::string_view kernel) {
  return {
      .id = fmt::format("decode_mlp_{}_{}", hidden, intermediate),
      .kernel = kernel,
      .shape = {.M = 1, .K = hidden, .r = 0, .N = intermediate},
      .device = "trn2",
      .dtype = DType::kBF16,
      .make = [](const PublishedProgram& p) { return decode_mlp_kernel(p.shape.K, p.shape.N); }};
}

void add_steps(std::vector<Published>& rows) {
  const auto add = [&](const PublishedProgram& program, double ms) {
    rows.push_back(added_row(program, Quantity::kMilliseconds, ms, kStepOfAutocomp));
  };
  using P = const PublishedProgram&;
  add(gemm_step("autocomp_1x2", "autocomp, 1 x 2 tiles",
                [](P) {
                  return autocomp_gemm_kernel({1, 1, 1});
                }),
      28.68);
  add(gemm_step("autocomp_2x2", "autocomp, 2 x 2 tiles",
                [](P) {
                  return autocomp_gemm_kernel({2, 1, 1});
                }),
      11.8);
  add(gemm_step("autocomp_4x2", "autocomp, 4 x 2 tiles",
                [](P) {
                  return autocomp_gemm_kernel({4, 1, 1});
                }),
      8.07);
  add(gemm_step("autocomp_4x2_pairs", "autocomp, X in pairs",
                [](P) {
                  return autocomp_gemm_kernel({4, 2, 1});
                }),
      7.62);
  add(gemm_step("autocomp_4x2_wide", "autocomp, wide loads",
                [](P) {
                  return autocomp_gemm_kernel({4, 4, 2});
                }),
      6.96);
}

void add_nkibench(std::vector<Published>& rows) {
  const auto add = [&](const PublishedProgram& program, double ms, double gib, double tolerance) {
    rows.push_back(added_row(program, Quantity::kMilliseconds, ms, kProfileTable));
    rows.push_back(added_row(program, Quantity::kHbmGib, gib, kProfileTable, tolerance));
  };
  using P = const PublishedProgram&;
  constexpr double kGib = 1073741824;
  add(fixed_shape_program("nkibench_swiglu", "NKIBench swiglu",
                          {.M = 4096, .K = 1024, .r = 0, .N = 3072}, "trn1", DType::kF32,
                          [](P) { return nkibench_swiglu_kernel(); }),
      4.222, (0.1416 + 0.0839) * 1e9 / kGib, 0.0001);
  // The 16 batches lie below one another in X and Y.
  add(fixed_shape_program("nkibench_bmm", "NKIBench bmm", {.M = 65536, .K = 64, .r = 0, .N = 4096},
                          "trn1", DType::kF32, [](P) { return nkibench_bmm_kernel(); }),
      4.611, (67436544.0 + 1086324736.0) / kGib, 0);
  add(fixed_shape_program("nkibench_silu", "NKIBench silu", {.M = 4096, .K = 0, .r = 0, .N = 7168},
                          "trn1", DType::kF32, [](P) { return nkibench_silu_kernel(); }),
      1.333, 2 * 117440512.0 / kGib, 0);
}

void add_issue_25(std::vector<Published>& rows) {
  const auto add = [&](int64_t M, int64_t N, int64_t K, double ms) {
    rows.push_back(added_row(tutorial_at(M, N, K), Quantity::kMilliseconds, ms, kIssue25));
  };
  add(4096, 4096, 4096, 2.694);
  add(4096, 4096, 8192, 3.538);
  add(4096, 8192, 4096, 3.539);
  add(4096, 8192, 8192, 6.991);
  add(8192, 4096, 4096, 3.876);
  add(8192, 4096, 8192, 7.516);
  add(8192, 8192, 4096, 7.476);
  add(8192, 8192, 8192, 14.72);
}

void add_trn2(std::vector<Published>& rows) {
  using P = const PublishedProgram&;
  rows.push_back(
      added_row(fixed_shape_program("autotune_lhs_rhs", "autotune, X by DMA transpose",
                                    {.M = 2048, .K = 2048, .r = 0, .N = 2048}, "trn2", DType::kBF16,
                                    [](P) { return autotune_lhs_rhs_kernel(); }),
                Quantity::kMfuPercent, 89.5, kLhsRhs));
  rows.push_back(
      added_row(fixed_shape_program("profiled_mlp", "three layers, tutorial's kernel",
                                    {.M = 2048, .K = 2048, .r = 0, .N = 1024}, "trn2", DType::kF32,
                                    [](P) { return profiled_mlp_kernel(); }),
                Quantity::kMilliseconds, 1.867, kGuide));
  const auto decode = [&](int64_t hidden, int64_t intermediate, std::string_view name, double us) {
    rows.push_back(added_row(decode_mlp(hidden, intermediate, name), Quantity::kMilliseconds,
                             us * 1e-3, kTarget));
  };
  decode(16384, 832, "MLP, one token", 224.5);
  decode(16384, 416, "MLP, one token", 118.4);
  decode(7168, 896, "RMSNorm and MLP, one token", 112.2);
  decode(8192, 448, "RMSNorm and MLP, one token", 76.5);
  rows.push_back(added_row(
      fixed_shape_program("prefill_mlp", "MLP, small prefill",
                          {.M = 512, .K = 1024, .r = 0, .N = 448}, "trn2", DType::kBF16,
                          [](P p) {
                            const kernels::Kernel& mlp = *kernels::find_kernel("dense_mlp").value();
                            return mlp.make(p.shape, kernels::tiling_of(mlp, {}).value(), {});
                          }),
      Quantity::kMilliseconds, 0.0805, kTarget));
}

// Adds the other columns of the tutorial's profiles, apart from the time.
void add_columns(std::vector<Published>& rows) {
  struct Columns {
    PublishedProgram program;
    double tensor_ms, dma_active, packets_ms;
  };
  for (const Columns& c : {Columns{tutorial_tiled(), 34.82, 99.93, 519.58},
                           Columns{tutorial_hoisted(), 28.16, 99.73, 402.07},
                           Columns{tutorial_blocked(), 28.28, 95.70, 390.69},
                           Columns{tutorial_optimized(), 28.16, 21.54, 81.73}}) {
    rows.push_back(added_row(c.program, Quantity::kTensorActiveMs, c.tensor_ms, kProfileColumns));
    rows.push_back(
        added_row(c.program, Quantity::kDmaActivePercent, c.dma_active, kProfileColumns));
    rows.push_back(added_row(c.program, Quantity::kDmaPacketMs, c.packets_ms, kProfileColumns));
  }
  rows.push_back(added_row(tutorial_optimized(), Quantity::kVectorActiveMs, 2.99, kProfileColumns));
}

}  // namespace

std::vector<Published> added_rows() {
  std::vector<Published> rows;
  add_steps(rows);
  add_issue_25(rows);
  add_nkibench(rows);
  add_trn2(rows);
  add_columns(rows);
  return rows;
}

}  // namespace neuronmm::validation
