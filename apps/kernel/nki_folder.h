#pragma once
// Runs a folder of kernel tests in the shape of the vendor's samples, for `neuronmm nki DIR`.

#include <string>

#include "base/result.h"
#include "kernel/nki_tracer.h"

namespace neuronmm::apps {

// Runs the tests in the folder `call.kernel` and prints a line for each. With `json` it writes a
// report there, too. Returns the exit code: 1 if a test fails, or if there is none.
Result<int> run_nki_folder(const TracerCall& call, const std::string& json);

}  // namespace neuronmm::apps
