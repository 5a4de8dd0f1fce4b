#include "kernel/tuned.h"

#include <fmt/core.h>

#include "base/interrupt.h"
#include "base/kept_work.h"
#include "message.h"
#include "trainium/tuner/cache.h"

namespace neuronmm::apps {

Result<tuner::Outcome> tune_with_cache(const tuner::Problem& problem, int64_t top,
                                       const std::string& cache_path, Progress& progress) {
  const std::filesystem::path path =
      cache_path.empty() ? tuner::default_cache_path() : std::filesystem::path(cache_path);
  NMM_ASSIGN(tuner::Cache cache, tuner::Cache::open(path));
  NMM_ASSIGN(const std::optional<tuner::Outcome> known, cache.find(problem, top));
  if (known) return *known;
  if (cache.stale() > 0) {
    print_message(
        "{}: tuned before the kernel, the device or the timing model changed; "
        "tuning again\n",
        tuner::key_of(problem));
  }
  NMM_TRY(cache.check_writable());  // before the work
  const UnsavedWork unsaved;        // The measurements so far.
  const KeptWork kept(path.string());
  auto outcome = tuner::tune(problem, {.top = top, .cache = &cache, .progress = &progress});
  progress.finish();
  NMM_TRY(cache.save());
  return outcome;
}

// Backends ask for a tiling when a model is loaded. A shape is searched once and then read from the
// cache.
device::ChooseTiling tuned_tilings(const simulator::DeviceSpec& device, int64_t cores) {
  return [device, cores](const kernels::Kernel& kernel,
                         const kernels::KernelShape& shape) -> Result<kernels::Tiling> {
    const tuner::Problem problem{.kernel = &kernel,
                                 .shape = shape,
                                 .options = {},
                                 .device = device,
                                 .chosen = {},
                                 .cores = cores};
    Progress progress(stderr);
    NMM_ASSIGN(const tuner::Outcome outcome, tune_with_cache(problem, 1, "", progress));
    return outcome.best.front().tiling;
  };
}

}  // namespace neuronmm::apps
