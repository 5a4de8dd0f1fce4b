#include "kernel/kernel_check.h"

#include <fmt/format.h>

#include "trainium/tile/memory_use.h"

namespace neuronmm::apps {
namespace {

bool fits(const KernelSettings& s, const kernels::Tiling& tiling,
          const kernels::KernelOptions& options) {
  const auto program = kernels::make_program(*s.kernel, s.shape, tiling, options);
  return program.ok() && tile::sbuf_use(*program).peak <= s.limits.sbuf_bytes_per_partition_usable;
}

}  // namespace

Result<tile::CheckReport> check_program(const KernelSettings& settings) {
  tile::CheckReport report = tile::check(settings.program, settings.limits);
  if (report.ok()) return report;
  std::string message = fmt::format("{}: the program is wrong:", settings.kernel->name);
  for (const tile::Violation& violation : report.violations) message += "\n  " + violation.message;
  return fail("{}", message);
}

std::vector<std::string> changes_that_fit(const KernelSettings& s) {
  std::vector<std::string> changes;
  for (const kernels::TilingParameter& parameter : s.kernel->tiling) {
    if (parameter.least == 0) continue;  // a switch, not a size
    kernels::Tiling tiling = s.tiling;
    for (int64_t tiles = tiling[parameter.name] / 2; tiles >= 1; tiles /= 2) {
      tiling.set(parameter.name, tiles);
      if (!fits(s, tiling, s.options)) continue;
      changes.push_back(fmt::format("{}={}", parameter.name, tiles));
      break;
    }
  }
  kernels::KernelOptions bf16_sums = s.options;
  bf16_sums.accumulate = DType::kBF16;
  if (s.options.accumulate == DType::kF32 && fits(s, s.tiling, bf16_sums)) {
    changes.emplace_back("--accumulate bf16");
  }
  return changes;
}

}  // namespace neuronmm::apps
