#pragma once
// Checks whether a kernel keeps the rules of its device, and finds changes that would make it fit
// into SBUF. The commands `simulate`, `emit` and `export` use it.

#include <string>
#include <vector>

#include "base/result.h"
#include "kernel/kernel_settings.h"
#include "trainium/tile/checker.h"

namespace neuronmm::apps {

// Checks the program. If it breaks rules, the error lists them. A program without an error may
// still need too much memory; CheckReport::fits() tells.
Result<tile::CheckReport> check_program(const KernelSettings& settings);

// Returns texts of changes, any of which alone would make the kernel fit. A change is a smaller
// value of one tiling parameter, found by halving, or another option. The result is empty if no
// single change suffices.
std::vector<std::string> changes_that_fit(const KernelSettings& settings);

}  // namespace neuronmm::apps
