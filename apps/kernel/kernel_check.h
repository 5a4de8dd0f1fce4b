#pragma once
// Checks whether a kernel keeps the rules of its device, and finds changes that would make it fit.
// `neuronmm simulate` and `emit` use it.

#include <string>
#include <vector>

#include "base/result.h"
#include "kernel/kernel_settings.h"
#include "trainium/tile/checker.h"

namespace neuronmm::apps {

// Checks the program. The error lists the rules that it breaks. A program without an error may
// still need too much memory.
Result<tile::CheckReport> check_program(const KernelSettings& settings);

// Returns changes each of which would suffice: a tiling parameter with the value to which halving
// reduces it, or an option.
std::vector<std::string> changes_that_fit(const KernelSettings& settings);

}  // namespace neuronmm::apps
