#include "kernel/kernel_check.h"

#include <fmt/format.h>

#include "trainium/tile/memory_use.h"

namespace neuronmm::apps {
namespace {

// Returns whether SBUF holds the program with this tiling. Only the capacity is checked: a smaller
// tile of a correct program breaks no other rule.
bool fits(const KernelSettings& s, const kernels::Tiling& tiling,
          const kernels::KernelOptions& options) {
  const auto program = kernels::make_program(*s.kernel, s.shape, tiling, options);
  return program.ok() && tile::sbuf_use(*program).peak <= s.limits.sbuf_bytes_per_partition_usable;
}

}  // namespace

// A program that breaks a rule is a defect of neuronmm and not the user's mistake. The error lists
// all violations, since they often have one cause.
Result<tile::CheckReport> check_program(const KernelSettings& settings) {
  tile::CheckReport report = tile::check(settings.program, settings.limits);
  if (report.ok()) return report;
  std::string message = fmt::format("{}: the program is wrong:", settings.kernel->name);
  for (const tile::Violation& violation : report.violations) message += "\n  " + violation.message;
  return fail("{}", message);
}

// Helps a user whose tiling does not fit. For each parameter, the function finds the largest value,
// by halving, with which SBUF holds the program.
std::vector<std::string> changes_that_fit(const KernelSettings& s) {
  std::vector<std::string> changes;
  for (const kernels::TilingParameter& parameter : s.kernel->tiling) {
    if (parameter.least == 0) continue;  // The parameter is a switch and not a size.
    kernels::Tiling tiling = s.tiling;
    for (int64_t tiles = tiling[parameter.name] / 2; tiles >= 1; tiles /= 2) {
      tiling.set(parameter.name, tiles);
      if (!fits(s, tiling, s.options)) continue;
      changes.push_back(fmt::format("{}={}", parameter.name, tiles));
      break;
    }
  }
  // bf16 sums take half of the memory at the price of precision, so they are named last.
  kernels::KernelOptions bf16_sums = s.options;
  bf16_sums.accumulate = DType::kBF16;
  if (s.options.accumulate == DType::kF32 && fits(s, s.tiling, bf16_sums)) {
    changes.emplace_back("--accumulate bf16");
  }
  return changes;
}

}  // namespace neuronmm::apps
