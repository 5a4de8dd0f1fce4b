#pragma once
// What `neuronmm nki` says of a kernel.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "trainium/simulator/device_spec.h"
#include "trainium/trace/simulate.h"

namespace neuronmm::apps {

// A kernel, timed: as it is, or with something changed.
struct NkiRun {
  std::string name;  // "kernel.py:matmul", "buffers=3"
  trace::TraceTiming timing;
};

struct NkiReport {
  const trace::Header& header;
  simulator::DeviceSpec device;
  NkiRun run;
  std::vector<NkiRun> others;  // another kernel, or this one with something changed
};

std::string to_text(const NkiReport& report);
nlohmann::ordered_json to_json(const NkiReport& report);

}  // namespace neuronmm::apps
