#pragma once
// Writes a kernel as NKI source, including the comments of the file. `neuronmm emit` and the export
// of fused kernels (model/export_kernels.h) use it.

#include <optional>
#include <string>

#include "base/result.h"
#include "kernel/kernel_settings.h"
#include "trainium/nki/driver.h"
#include "trainium/nki/release.h"

namespace neuronmm::apps {

// Returns the source. `settings` must be those of all cores (settings_of_all_cores()). With a
// driver, the file has a main function that runs the kernel. Fails if the release's dialect
// cannot express the kernel's program.
Result<std::string> emitted_source(const KernelSettings& settings, const nki::Release& release,
                                   std::optional<nki::Driver> driver);

}  // namespace neuronmm::apps
