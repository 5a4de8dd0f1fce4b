#pragma once
// Implements the helper processes of a parallel compression, rounding or fit: all processes except
// process 0 (data_parallel.h). The commands call it on those processes
// (apps/model/data_processes.cc).

#include <filesystem>

#include "base/result.h"
#include "ops/backend.h"
#include "parallel/communicator.h"

namespace neuronmm::compress {

// Serves process 0 until it is done. Fails for the same reasons as DataParallel::start(), or if the
// embedding table cannot be read.
Status help_first_process(parallel::Communicator& communicator, const std::filesystem::path& model,
                          const ops::Backend& backend);

}  // namespace neuronmm::compress
