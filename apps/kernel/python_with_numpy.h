#pragma once
// Starts a script in a Python that has NumPy. run_tracer() (nki_tracer.h) calls it. It remembers in
// the user's cache folder which Python that was, and keeps compiled files there, so that a short
// kernel starts in a fraction of a second.

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "child_program.h"

namespace neuronmm::apps {

// The exit status of a script for which its Python is too old or has no NumPy.
inline constexpr int kCannotRunKernels = 121;

// Runs Python with these arguments and reads its standard error. Python is the python3 on the path
// or the system's, whichever does not exit with kCannotRunKernels. Fails if both do.
Result<ChildResult> run_python(const std::vector<std::string>& arguments,
                               const std::vector<std::pair<std::string, std::string>>& environment);

}  // namespace neuronmm::apps
