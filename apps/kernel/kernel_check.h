#pragma once
// Whether a kernel keeps the rules of its device, and what would make it fit.

#include <string>
#include <vector>

#include "base/result.h"
#include "kernel/kernel_settings.h"
#include "trainium/tile/checker.h"

namespace neuronmm::apps {

// An error lists the rules that the program breaks. It may still need too much memory.
Result<tile::CheckReport> check_program(const KernelSettings& settings);

// Which tiling parameter, halved until SBUF holds the program, or which option would do.
std::vector<std::string> changes_that_fit(const KernelSettings& settings);

}  // namespace neuronmm::apps
