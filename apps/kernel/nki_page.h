#pragma once
// What `neuronmm nki` found as one page of HTML that needs nothing beside it.

#include <string>

#include "kernel/nki_report.h"
#include "trainium/simulator/trace.h"

namespace neuronmm::apps {

// `timeline`: of the report's kernel.
std::string nki_page(const NkiReport& report, const simulator::DeviceSpec& device,
                     const simulator::Trace& timeline);

}  // namespace neuronmm::apps
