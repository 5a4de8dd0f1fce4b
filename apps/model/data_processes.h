#pragma once
// Commands that a launcher of MPI has started several times and that share out what they gather
// from a text: process 0 runs the command, the others help it.

#include <filesystem>
#include <functional>

#include "base/result.h"
#include "commands.h"
#include "compress/statistics/data_parallel.h"

namespace neuronmm::apps {

// Gets a backend and the other processes; null: there are none.
using DataCommand = std::function<Result<int>(const ops::Backend&, compress::DataParallel*)>;

// `model`: the folder that every process has.
Result<int> run_by_data(const std::filesystem::path& model, const DeviceOptions& device,
                        const DataCommand& command);

}  // namespace neuronmm::apps
