#include "trainium/validation/validation.h"

#include <charconv>
#include <cmath>
#include <map>

#include "trainium/kernels/matmul.h"
#include "trainium/kernels/published_baselines.h"
#include "trainium/kernels/xuv.h"
#include "trainium/simulator/timing.h"

namespace neuronmm::validation {

namespace {

using kernels::KernelOptions;
using kernels::KernelShape;
using kernels::Tiling;
using simulator::Published;
using simulator::Quantity;
using tile::Program;

constexpr KernelShape kTutorialShape = {.M = 4096, .K = 8192, .r = 0, .N = 8192};
const Tiling kTutorialTiling({{"BM", 16}, {"BN", 2}, {"BK", 8}});
// The tiles in a block of the baselines that NeuronMM measures, and of its fused kernel.
const Tiling kBaselineTiling({{"BM", 8}, {"BN", 2}, {"BK", 8}});
const Tiling kFusedTiling({{"BM", 8}, {"Br", 8}, {"BN", 2}, {"BK", 4}});

KernelOptions options(DType dtype) {
  return {.dtype = dtype, .accumulate = dtype, .left = kernels::Layout::kTransposed};
}

// The tiled kernel names no rotation depth; the profiles show its loads to be limited by bandwidth,
// not by latency, which takes several tiles in flight.
Program tiled(DType dtype) {
  constexpr int64_t kInFlight = 8;
  return kernels::with_copies(
      kernels::matmul_tiled(kTutorialShape, kTutorialTiling, options(dtype)), {"x_tile", "w_tile"},
      kInFlight);
}

// The programs that do not depend on a size.
const std::map<std::string_view, Program (*)()>& fixed_programs() {
  static const std::map<std::string_view, Program (*)()> programs = {
      {"tutorial_optimized",
       [] { return matmul_optimized(kTutorialShape, kTutorialTiling, options(DType::kBF16)); }},
      {"tutorial_tiled", [] { return tiled(DType::kBF16); }},
      {"trn2_tiled", [] { return tiled(DType::kF32); }},
      {"trn2_hoisted",
       [] { return matmul_hoisted(kTutorialShape, kTutorialTiling, options(DType::kF32)); }},
      {"trn2_blocked",
       [] {
         return matmul_blocked(kTutorialShape, Tiling({{"BM", 2}, {"BN", 2}}),
                               options(DType::kF32));
       }},
      {"trn2_optimized",
       [] { return matmul_optimized(kTutorialShape, kTutorialTiling, options(DType::kF32)); }},
      {"nkibench_matmul", kernels::nkibench_matmul},
      {"nkibench_transpose_matmul", kernels::nkibench_transpose_matmul},
      {"nkibench_lora", kernels::nkibench_lora},
      {"ladder_inner_loads", kernels::ladder_inner_loads},
      {"ladder_hoisted", kernels::ladder_hoisted},
      {"ladder_double_psum", kernels::ladder_double_psum},
      {"ladder_streaming", kernels::ladder_streaming},
      {"ladder_two_stage", kernels::ladder_two_stage},
  };
  return programs;
}

double measure(const simulator::Summary& summary, Quantity quantity) {
  switch (quantity) {
    case Quantity::kMilliseconds:
      return summary.milliseconds();
    case Quantity::kHbmGib:
      return static_cast<double>(summary.hbm_bytes()) / 1073741824.0;
    case Quantity::kMfuPercent:
      return summary.mfu_estimated_percent;
    case Quantity::kHbmReadBytes:
      return static_cast<double>(summary.hbm_read_bytes);
    case Quantity::kHbmWriteBytes:
      return static_cast<double>(summary.hbm_write_bytes);
  }
  return 0;
}

double difference(const Published& published, double simulated) {
  if (published.quantity == Quantity::kMfuPercent) return published.value / simulated - 1;
  return simulated / published.value - 1;
}

bool is_time(const Published& published) {
  return published.quantity == Quantity::kMilliseconds ||
         published.quantity == Quantity::kMfuPercent;
}

}  // namespace

Result<Program> published_program(std::string_view id) {
  if (const auto found = fixed_programs().find(id); found != fixed_programs().end()) {
    return found->second();
  }
  const size_t split = id.rfind('_');
  const std::string_view name = id.substr(0, split);
  int64_t rows = 0;
  const std::string_view digits = split == id.npos ? std::string_view() : id.substr(split + 1);
  std::from_chars(digits.data(), digits.data() + digits.size(), rows);
  const KernelShape shape{.M = rows, .K = 8192, .r = 4096, .N = 16384};
  const KernelOptions bf16 = options(DType::kBF16);
  if (rows > 0 && name == "neuronmm") return kernels::xuv(shape, kFusedTiling, bf16);
  if (rows > 0 && name == "nki_xuv") return kernels::xuv_sequential(shape, kBaselineTiling, bf16);
  if (rows > 0 && name == "nki_xw") return kernels::matmul_optimized(shape, kBaselineTiling, bf16);
  return fail("no published program is called '{}'", id);
}

Result<std::vector<Row>> validate() {
  std::map<std::string_view, simulator::Summary> summaries;
  std::vector<Row> rows;
  for (const Published& published : simulator::published()) {
    auto [at, fresh] = summaries.try_emplace(published.id);
    if (fresh) {
      NMM_ASSIGN(const Program program, published_program(published.id));
      NMM_ASSIGN(const simulator::DeviceSpec device, simulator::find_device(published.device));
      NMM_ASSIGN(const simulator::Timing timing, simulator::simulate(program, device));
      at->second = timing.summary;
    }
    const double simulated = measure(at->second, published.quantity);
    rows.push_back({&published, simulated, difference(published, simulated)});
  }
  return rows;
}

Error time_error(const std::vector<Row>& rows, simulator::Set set) {
  Error error;
  for (const Row& row : rows) {
    if (row.published->set != set || !is_time(*row.published)) continue;
    ++error.rows;
    error.mean_absolute += std::abs(row.difference);
    if (std::abs(row.difference) > std::abs(error.worst) || !error.worst_row) {
      error.worst = row.difference;
      error.worst_row = &row;
    }
  }
  if (error.rows > 0) error.mean_absolute /= error.rows;
  return error;
}

std::string to_string(const std::vector<Row>& rows) {
  std::string text;
  for (const simulator::Set set : {simulator::Set::kCalibration, simulator::Set::kValidation}) {
    text += fmt::format("{}\n", set_name(set));
    for (const Row& row : rows) {
      const Published& p = *row.published;
      if (p.set != set) continue;
      text += fmt::format("  {:<32} {:<22} {:<5} {:<5} {:<14} {:>13.6g} {:>13.6g} {:>+7.1f} %{}\n",
                          p.kernel, p.shape, p.device, p.dtype, quantity_name(p.quantity), p.value,
                          row.simulated, 100 * row.difference,
                          std::abs(row.difference) > kUnexplained ? "  unexplained" : "");
    }
    const Error error = time_error(rows, set);
    if (!error.worst_row) continue;
    text += fmt::format("  times: {} rows, mean absolute error {:.1f} %, worst {:+.1f} % ({})\n",
                        error.rows, 100 * error.mean_absolute, 100 * error.worst,
                        error.worst_row->published->id);
  }
  return text;
}

}  // namespace neuronmm::validation
