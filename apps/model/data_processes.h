#pragma once
// Runs a command that gathers statistics from a text (compress, quantize, fit) on the processes
// that an MPI launcher has started. Process 0 runs the command and divides the text; the others
// compute their parts (compress/data_parallel.h).

#include <filesystem>
#include <functional>

#include "base/result.h"
#include "commands.h"
#include "compress/data_parallel.h"

namespace neuronmm::apps {

// The command itself. Its second argument is process 0's view of the other processes, or null if
// there are none.
using DataCommand = std::function<Result<int>(const ops::Backend&, compress::DataParallel*)>;

// Calls `command` in process 0 and helps it in the others. Returns the exit code; in the other
// processes it is 1 if they could not help. Every process must be able to read the folder `model`.
Result<int> run_data_parallel(const std::filesystem::path& model, const DeviceOptions& device,
                              const DataCommand& command);

}  // namespace neuronmm::apps
