#pragma once
// Tuned tilings, kept in a file from run to run.

#include <filesystem>
#include <string>

#include "base/progress.h"
#include "base/result.h"
#include "trainium/device/mlp_program.h"
#include "trainium/tuner/tuner.h"

namespace neuronmm::apps {

// The best `top` tilings: from the cache file when it has them, else searched for, and kept in it,
// also when interrupted. An empty path is the user's own cache file.
Result<tuner::Outcome> tune_with_cache(const tuner::Problem& problem, int64_t top,
                                       const std::string& cache_path, Progress& progress);

// The best tiling for a model's MLPs on `device`, one of so many cores at work, by the user's own
// cache file.
device::ChooseTiling tuned_tilings(const simulator::DeviceSpec& device, int64_t cores = 1);

}  // namespace neuronmm::apps
