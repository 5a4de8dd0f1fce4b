#include "trainium/validation/published_programs.h"

#include <fmt/format.h>

#include "trainium/kernels/matmul.h"
#include "trainium/kernels/xuv.h"
#include "trainium/validation/published_kernels.h"

namespace neuronmm::validation {

namespace {

using kernels::KernelOptions;
using kernels::Tiling;
using tile::Program;

const Tiling kTutorialTiling({{"BM", 16}, {"BN", 2}, {"BK", 8}});
// The tiles in a block of the baselines that NeuronMM measures, and of its fused kernel.
const Tiling kBaselineTiling({{"BM", 8}, {"BN", 2}, {"BK", 8}});
const Tiling kFusedTiling({{"BM", 8}, {"Br", 8}, {"BN", 2}, {"BK", 4}});

// The published kernels keep sums in the dtype of their operands.
KernelOptions options(const PublishedProgram& p) {
  return {.dtype = p.dtype, .accumulate = p.dtype, .left = kernels::Layout::kTransposed};
}

// The tiled kernel states no rotation depth. The profiles show that bandwidth limits its loads, not
// latency, which requires several tiles in flight.
Program make_tiled(const PublishedProgram& p) {
  constexpr int64_t kInFlight = 8;
  return with_copies(kernels::matmul_tiled(p.shape, kTutorialTiling, options(p)),
                     {"x_tile", "w_tile"}, kInFlight);
}
Program make_hoisted(const PublishedProgram& p) {
  return kernels::matmul_hoisted(p.shape, kTutorialTiling, options(p));
}
Program make_blocked(const PublishedProgram& p) {
  return kernels::matmul_blocked(p.shape, Tiling({{"BM", 2}, {"BN", 2}}), options(p));
}
Program make_optimized(const PublishedProgram& p) {
  return kernels::matmul_optimized(p.shape, kTutorialTiling, options(p));
}

// The kernels of AWS's matmul tutorial, which publishes times for trn2 in fp32.
PublishedProgram tutorial(std::string_view id, std::string_view version,
                          Program (*make)(const PublishedProgram&)) {
  return {.id = std::string(id),
          .kernel = version,
          .shape = {.M = 4096, .K = 8192, .r = 0, .N = 8192},
          .device = "trn2",
          .dtype = DType::kF32,
          .make = make};
}

// Two of the tutorial's kernels also have published times on trn1, in bf16.
PublishedProgram tutorial_trn1(std::string_view id, PublishedProgram program) {
  program.id = id;
  program.device = "trn1";
  program.dtype = DType::kBF16;
  return program;
}

// A square matmul that each rung of the ladder improves.
PublishedProgram ladder(std::string_view id, std::string_view rung,
                        Program (*make)(const PublishedProgram&)) {
  return {.id = std::string(id),
          .kernel = rung,
          .shape = {.M = 2048, .K = 2048, .r = 0, .N = 2048},
          .device = "trn2",
          .dtype = DType::kBF16,
          .make = make};
}

PublishedProgram nkibench(std::string_view id, std::string_view kernel,
                          const kernels::KernelShape& shape,
                          Program (*make)(const PublishedProgram&)) {
  return {.id = std::string(id),
          .kernel = kernel,
          .shape = shape,
          .device = "trn1",
          .dtype = DType::kF32,
          .make = make};
}

// The programs that the paper compares, at every M that it measured.
PublishedProgram paper_program(std::string_view id, std::string_view kernel,
                               const kernels::KernelShape& shape,
                               Program (*make)(const PublishedProgram&)) {
  return {.id = fmt::format("{}_{}", id, shape.M),
          .kernel = kernel,
          .shape = shape,
          .device = "trn1",
          .dtype = DType::kBF16,
          .make = make};
}

}  // namespace

std::string shape_text(const PublishedProgram& program) {
  const kernels::KernelShape& s = program.shape;
  return s.r > 0 ? fmt::format("{},{},{},{}", s.M, s.K, s.r, s.N)
                 : fmt::format("{},{},{}", s.M, s.K, s.N);
}

std::string_view dtype_text(const PublishedProgram& program) {
  return program.dtype == DType::kBF16 ? "bf16" : "fp32";
}

PublishedProgram tutorial_tiled() { return tutorial("trn2_tiled", "tutorial, tiled", make_tiled); }
PublishedProgram tutorial_hoisted() {
  return tutorial("trn2_hoisted", "tutorial, hoisted loads", make_hoisted);
}
PublishedProgram tutorial_blocked() {
  return tutorial("trn2_blocked", "tutorial, blocked", make_blocked);
}
PublishedProgram tutorial_optimized() {
  return tutorial("trn2_optimized", "tutorial, fully optimised", make_optimized);
}
PublishedProgram tutorial_tiled_trn1() { return tutorial_trn1("tutorial_tiled", tutorial_tiled()); }
PublishedProgram tutorial_optimized_trn1() {
  return tutorial_trn1("tutorial_optimized", tutorial_optimized());
}

PublishedProgram nkibench_matmul() {
  return nkibench("nkibench_matmul", "NKIBench matmul", {.M = 4096, .K = 5120, .r = 0, .N = 12288},
                  [](const PublishedProgram&) { return nkibench_matmul_kernel(); });
}
PublishedProgram nkibench_transpose_matmul() {
  return nkibench("nkibench_transpose_matmul", "NKIBench transpose_matmul",
                  {.M = 4096, .K = 2048, .r = 0, .N = 10944},
                  [](const PublishedProgram&) { return nkibench_transpose_matmul_kernel(); });
}
PublishedProgram nkibench_lora() {
  return nkibench("nkibench_lora", "NKIBench lora", {.M = 4096, .K = 5120, .r = 128, .N = 12288},
                  [](const PublishedProgram&) { return nkibench_lora_kernel(); });
}

PublishedProgram ladder_inner_loads() {
  return ladder("ladder_inner_loads", "ladder: loads in the inner loop",
                [](const PublishedProgram&) { return ladder_inner_loads_kernel(); });
}
PublishedProgram ladder_hoisted() {
  return ladder("ladder_hoisted", "ladder: loads hoisted",
                [](const PublishedProgram&) { return ladder_hoisted_kernel(); });
}
PublishedProgram ladder_double_psum() {
  return ladder("ladder_double_psum", "ladder: two accumulators",
                [](const PublishedProgram&) { return ladder_double_psum_kernel(); });
}
PublishedProgram ladder_streaming() {
  return ladder("ladder_streaming", "ladder: streaming loads",
                [](const PublishedProgram&) { return ladder_streaming_kernel(); });
}
PublishedProgram ladder_two_stage() {
  return ladder("ladder_two_stage", "ladder: K in two stages",
                [](const PublishedProgram&) { return ladder_two_stage_kernel(); });
}

PublishedProgram neuronmm(int64_t M) {
  return paper_program(
      "neuronmm", "NeuronMM (fused XUV)", {.M = M, .K = 8192, .r = 4096, .N = 16384},
      [](const PublishedProgram& p) { return kernels::xuv(p.shape, kFusedTiling, options(p)); });
}
PublishedProgram nki_xuv(int64_t M) {
  return paper_program("nki_xuv", "sequential NKI XUV", {.M = M, .K = 8192, .r = 4096, .N = 16384},
                       [](const PublishedProgram& p) {
                         return kernels::xuv_sequential(p.shape, kBaselineTiling, options(p));
                       });
}
PublishedProgram nki_xw(int64_t M) {
  return paper_program("nki_xw", "NKI XW", {.M = M, .K = 8192, .r = 0, .N = 16384},
                       [](const PublishedProgram& p) {
                         return kernels::matmul_optimized(p.shape, kBaselineTiling, options(p));
                       });
}

}  // namespace neuronmm::validation
