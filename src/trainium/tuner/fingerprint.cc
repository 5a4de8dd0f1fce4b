#include <string>

#include <fmt/format.h>

#include "io/checksum.h"
#include "trainium/simulator/timing.h"
#include "trainium/tile/printer.h"
#include "trainium/tuner/cache.h"
#include "trainium/tuner/search_space.h"

namespace neuronmm::tuner {
namespace {

// A shape for the fingerprint. Every dimension is ragged and takes several blocks, so the program
// contains every branch of the kernel's builder. The shape is small, because its program is built
// and simulated for every request to a cache.
constexpr kernels::KernelShape kSample = {.M = 1100, .K = 900, .r = 300, .N = 2100, .s = 200};
// The shape for up to 128 rows, for which some kernels have loops of their own.
constexpr kernels::KernelShape kFewRows = {.M = 20, .K = 2176, .r = 300, .N = 2100, .s = 200};

// The shape for kernels of mixtures.
constexpr kernels::KernelShape kMixture = {
    .M = 20, .K = 900, .r = 300, .N = 2100, .E = 4, .A = 2, .D = 3};

std::string_view name_of(DType dtype) { return dtype == DType::kBF16 ? "bf16" : "fp32"; }

// Adds the program and its simulated time. If the kernel rejects the options, there is no program,
// and tune() reports the error.
void add_sample(std::string& text, const Problem& p, const kernels::KernelShape& shape,
                const kernels::TilingValues& chosen) {
  const auto tiling = kernels::tiling_of(*p.kernel, chosen);
  const auto sample = kernels::make_program(*p.kernel, shape, *tiling, p.options);
  if (!sample.ok()) return;
  text += tile::print(*sample);
  const auto timing = simulator::simulate(*sample, p.device);
  if (timing.ok()) text += fmt::format("{}", timing->summary.total_time);
}

}  // namespace

std::string tiling_text(const kernels::Tiling& tiling) {
  std::string text;
  for (const auto& [name, value] : tiling.values()) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
  }
  return text;
}

// The key stands in the cache file. Everything that changes the result is in it, but usual values
// (transposed X, one core, nothing chosen) are left out.
std::string key_of(const Problem& p) {
  std::string key =
      fmt::format("{} {} {} {} {}", p.kernel->name, shape_sizes(*p.kernel, p.shape), p.device.name,
                  name_of(p.options.dtype), name_of(p.options.accumulate));
  if (p.options.left == kernels::Layout::kNatural) key += " natural";
  if (p.cores > 1) key += fmt::format(" {} cores", p.cores);
  const std::string chosen = tiling_text(kernels::Tiling(p.chosen));
  return chosen.empty() ? key : key + " " + chosen;
}

// The hash covers everything that affects the result and is not in the key. The code of the timing
// model and of the kernel's builder cannot be hashed. The simulated times of the samples represent
// the first, and their printed programs the second.
std::string fingerprint(const Problem& p) {
  std::string text;
  for (const simulator::ParameterRow& row : simulator::parameter_rows()) {
    text += fmt::format("{}={};", row.name, (p.device.*row.member).value);
  }
  for (const kernels::TilingParameter& parameter : p.kernel->tiling) {
    text += fmt::format("{} {} {}:", parameter.name, parameter.dimension, parameter.tile);
    for (const int64_t value : values_to_try(parameter, p.shape, p.options)) {
      text += fmt::format("{},", value);
    }
  }
  for (const kernels::SubKernel& sub_kernel : p.kernel->sub_kernels) text += sub_kernel.kernel;
  add_sample(text, p, p.kernel->experts ? kMixture : kSample, {});
  kernels::TilingValues for_few_rows;
  for (const kernels::TilingParameter& parameter : p.kernel->tiling) {
    if (parameter.for_few_rows) for_few_rows.emplace_back(parameter.name, parameter.most);
  }
  if (!for_few_rows.empty()) add_sample(text, p, kFewRows, for_few_rows);
  return io::checksum(text);
}

}  // namespace neuronmm::tuner
