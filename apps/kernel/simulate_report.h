#pragma once
// Writes the results of `neuronmm simulate` as text and as JSON.

#include <optional>
#include <string>
#include <vector>

#include "kernel/kernel_settings.h"
#include "kernel/kernel_values.h"
#include "trainium/simulator/timing.h"
#include "trainium/tile/checker.h"

namespace neuronmm::apps {

struct SimulateReport {
  tile::CheckReport check;
  simulator::Timing timing;
  std::vector<std::string> changes;  // Changes of one setting, each of which would make it fit.
  std::optional<ValueReport> values;

  // Lower bounds of the latency, which no schedule can beat.
  double tensor_bound_ms() const { return timing.summary.tensor.instruction_time * 1e3; }
  double dma_bound_ms(const simulator::DeviceSpec& device) const;
};

std::string to_text(const KernelSettings& settings, const SimulateReport& report);
std::string to_json(const KernelSettings& settings, const SimulateReport& report);

}  // namespace neuronmm::apps
