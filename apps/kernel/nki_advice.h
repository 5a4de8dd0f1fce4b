#pragma once
// Says what somebody should change in a kernel, and what each change would gain. A change is one of
// `--what-if` (what_if.h), and its gain is simulated. `neuronmm nki` ends its report with the
// advice.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "trainium/simulator/device_spec.h"
#include "trainium/trace/file.h"
#include "trainium/trace/simulate.h"

namespace neuronmm::apps {

struct Suggestion {
  std::string text;     // Says how and where to change it, as at "kernel.py:16".
  std::string what_if;  // The change that was simulated. Empty if the latency is an estimate.
  double latency_ms = 0;
};

struct Advice {
  std::string waits;                    // The causes of its waits. May be empty.
  std::vector<Suggestion> suggestions;  // The fastest first.
  size_t tried = 0;                     // Changes that were simulated.
  size_t untried = 0;  // Changes that were not, because the kernel has too many instructions.
};

// Tries the changes that the simulation suggests, and returns those that gain 2 % or more.
// `timing` is the simulation of `file` on `device`. A change that does not fit is left out.
Advice advise(const trace::TraceFile& file, const trace::TraceTiming& timing, bool as_written,
              const simulator::DeviceSpec& device);

std::string advice_text(const Advice& advice, double latency_ms);
nlohmann::ordered_json advice_json(const Advice& advice);

}  // namespace neuronmm::apps
