#pragma once
// A kernel as NKI source, with all that its file says beside its instructions.

#include <optional>
#include <string>

#include "base/result.h"
#include "kernel/kernel_settings.h"
#include "trainium/nki/dialect.h"
#include "trainium/nki/driver.h"

namespace neuronmm::apps {

// `settings`: of all cores. With a driver, a main that runs it.
Result<std::string> emitted_source(const KernelSettings& settings, nki::Dialect dialect,
                                   std::optional<nki::Driver> driver);

}  // namespace neuronmm::apps
