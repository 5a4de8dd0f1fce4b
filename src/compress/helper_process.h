#pragma once
// What all processes but the first do during a compression, a rounding or a fit (data_parallel.h).

#include <filesystem>

#include "base/result.h"
#include "ops/backend.h"
#include "parallel/communicator.h"

namespace neuronmm::compress {

// Does what process 0 asks for until it is done. Errors: those of DataParallel::start().
Status help_first_process(parallel::Communicator& communicator, const std::filesystem::path& model,
                          const ops::Backend& backend);

}  // namespace neuronmm::compress
