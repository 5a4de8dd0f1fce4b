#pragma once
// Finds changes to a kernel that may make it faster, from what its simulation waited for. The
// advice (nki_advice.h) simulates each of them.

#include <string>
#include <vector>

#include "trainium/simulator/device_spec.h"
#include "trainium/trace/header.h"
#include "trainium/trace/simulate.h"

namespace neuronmm::apps {

struct CandidateChange {
  std::string text;     // Says how and where to change the kernel.
  std::string what_if;  // The change as a text of what_if.h.
  double share = 0;     // The part of the latency that it concerns.
};

// Returns the changes that concern at least 2 % of the latency, the largest part first. Two changes
// with the same text are two sizes of one.
std::vector<CandidateChange> changes_to_try(const trace::Header& header,
                                            const trace::TraceTiming& timing,
                                            const simulator::DeviceSpec& device);

}  // namespace neuronmm::apps
