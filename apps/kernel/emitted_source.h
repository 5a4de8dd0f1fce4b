#pragma once
// A kernel as NKI source, with all that its file says beside its instructions.

#include <string>

#include "base/result.h"
#include "kernel/kernel_settings.h"
#include "trainium/nki/dialect.h"

namespace neuronmm::apps {

// `driver`: with a main that runs it from torch on a device.
Result<std::string> emitted_source(const KernelSettings& settings, nki::Dialect dialect,
                                   bool driver);

}  // namespace neuronmm::apps
