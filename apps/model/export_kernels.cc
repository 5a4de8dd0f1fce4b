#include "model/export_kernels.h"

#include <fmt/ranges.h>

#include "kernel/emitted_source.h"
#include "kernel/kernel_check.h"
#include "trainium/reference/errors.h"

namespace neuronmm::apps {
namespace {

constexpr const char* kKernel = "mlp";

// The shape of the small kernel. It is small because nki.simulate runs in Python, and no dimension
// is a multiple of the tile, so that ragged tiles are tested. Assumed.
constexpr int64_t kSmallRows = 160, kSmallHidden = 192, kSmallRank = 96, kSmallInner = 320;

// The cores of a launch. A graph on trn2 and trn3 has logical cores of two (LNC 2), and neuronx-cc
// refuses kernels of another number (NCC_EVRF066). Documented: SDK 2.33.
constexpr int64_t kCores = 2;

Result<KernelSettings> settings_of(const exports::ExportedKernel& kernel,
                                   const std::string& device) {
  KernelFlags flags;
  flags.kernel = kKernel;
  flags.device = device;
  flags.cores = kernel.cores;
  flags.shape = fmt::format("{},{},{},{}", kernel.M, kernel.K, kernel.r, kernel.N);
  return read_settings(flags);
}

Status add_source(const KernelSettings& settings, const nki::Release& release,
                  exports::ExportedKernel& kernel) {
  kernel.function = kKernel;
  kernel.tolerance = reference::tolerance(settings);
  NMM_ASSIGN(const KernelSettings all, settings_of_all_cores(settings));
  NMM_ASSIGN(kernel.source, emitted_source(all, release, std::nullopt));
  return {};
}

}  // namespace

Result<std::vector<exports::ExportedKernel>> export_kernels(const io::ModelConfig& config,
                                                            const exports::Choice& choice,
                                                            int64_t rows, exports::KernelUse& use) {
  std::vector<exports::ExportedKernel> kernels;
  if (use.fused.empty()) return kernels;
  if (rows % kCores != 0) {
    use.notes.push_back(fmt::format(
        "all layers: plain torch products, because {} cores cannot split the {} rows of a prefill; "
        "export with an even --prompt-tokens",
        kCores, rows));
    return kernels;
  }
  const nki::Release release = nki::find_release(choice.release.sdk).value_or(nki::kNewestRelease);
  const std::string& device = choice.device;
  for (const exports::FusedLayers& fused : use.fused) {
    exports::ExportedKernel kernel{.file = fmt::format("mlp_rank_{}.py", fused.rank),
                                   .use = "prefill",
                                   .M = rows,
                                   .K = config.hidden_size,
                                   .r = fused.rank,
                                   .N = config.intermediate_size,
                                   .cores = kCores};
    NMM_ASSIGN(const KernelSettings settings, settings_of(kernel, device));
    NMM_ASSIGN(const tile::CheckReport report, check_program(settings));
    if (!report.fits()) {
      use.notes.push_back(
          fmt::format("layers {}: plain torch products, because a kernel of rank {} "
                      "does not fit {}",
                      fmt::join(fused.layers, ", "), fused.rank, device));
      continue;
    }
    NMM_TRY(add_source(settings, release, kernel));
    kernels.push_back(std::move(kernel));
  }
  if (kernels.empty()) return kernels;
  exports::ExportedKernel small{.file = "mlp_small.py",
                                .use = "simulate",
                                .M = kSmallRows,
                                .K = kSmallHidden,
                                .r = kSmallRank,
                                .N = kSmallInner,
                                .cores = kCores};
  NMM_ASSIGN(const KernelSettings settings, settings_of(small, device));
  NMM_TRY(add_source(settings, release, small));
  kernels.push_back(std::move(small));
  return kernels;
}

}  // namespace neuronmm::apps
