#pragma once
// Writes the results of `neuronmm simulate` as text and as JSON. simulate.cc fills the report from
// a kernel that has passed check_program() (kernel_check.h). Nothing here can fail.

#include <optional>
#include <string>
#include <vector>

#include "kernel/kernel_settings.h"
#include "kernel/kernel_values.h"
#include "trainium/simulator/timing.h"
#include "trainium/tile/checker.h"

namespace neuronmm::apps {

// Everything that was found out about one kernel. Latency, bytes and memory are those of one core.
struct SimulateReport {
  tile::CheckReport check;
  simulator::Timing timing;
  // Changes of one setting each, such as a smaller block, any of which would make the kernel fit
  // into SBUF. Empty if the kernel fits already (timing.remedies is empty). Only the text shows
  // them.
  std::vector<std::string> changes;
  // The comparison with fp64, for the rows of all cores. Set only with --values.
  std::optional<ValueReport> values;

  // Return lower bounds of the latency, which no schedule can beat: the Tensor engine's
  // instructions back to back, and all bytes of HBM traffic at the full rate of DMA.
  double tensor_bound_ms() const { return timing.summary.tensor.instruction_time * 1e3; }
  double dma_bound_ms(const simulator::DeviceSpec& device) const;
};

// Return the report as text for people and as the text of a JSON file. `settings` are those that
// were simulated, of one core.
std::string to_text(const KernelSettings& settings, const SimulateReport& report);
std::string to_json(const KernelSettings& settings, const SimulateReport& report);

}  // namespace neuronmm::apps
