#pragma once
// Writes the results of `neuronmm nki` as one page of HTML that needs no other file.

#include <string>

#include "kernel/nki_report.h"
#include "trainium/simulator/timeline.h"

namespace neuronmm::apps {

// Returns the page without its end (plot/page.h). `timeline` is that of the report's kernel.
std::string nki_page(const NkiReport& report, const simulator::DeviceSpec& device,
                     const simulator::Timeline& timeline);

}  // namespace neuronmm::apps
