#pragma once
// Finds tuned tilings, which a cache file keeps between runs. The commands on kernels and `paper`
// use it, and so do simulated devices when they run a model. Errors: a cache file that cannot be
// read or written, a problem without any tiling that fits, and an interrupt.

#include <filesystem>
#include <string>

#include "base/progress.h"
#include "base/result.h"
#include "trainium/device/mlp_program.h"
#include "trainium/tuner/tuner.h"

namespace neuronmm::apps {

// Returns the best `top` tilings. They come from the cache file if it has them. Otherwise they are
// searched for and stored in it, even if the search is interrupted. An empty path means the user's
// own cache file.
Result<tuner::Outcome> tune_with_cache(const tuner::Problem& problem, int64_t top,
                                       const std::string& cache_path, Progress& progress);

// Returns a function that chooses the best tiling for a model's MLPs. `device` is one core of
// `cores` that work at the same time. The function uses the user's own cache file.
device::ChooseTiling tuned_tilings(const simulator::DeviceSpec& device, int64_t cores = 1);

}  // namespace neuronmm::apps
