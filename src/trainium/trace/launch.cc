#include "trainium/trace/launch.h"

namespace neuronmm::trace {

namespace {

using simulator::Grade;

// Fitted: the cost of a launch on two cores of trn2 in addition to that of one core, in ns. The
// rows of half 0 of docs/measurements/predictions.md want 19,000, and the 14 instructions of
// rmsnorm_quant alone 15,500. Those of docs/measurements/predictions_chipboost.md, whose release is
// newer, want nothing. The cause is not public; cores that start at different times and wait for
// one another would have this effect. Assumed: trn3 has the same cost.
constexpr double kSeveralCoresNs = 15000;

}  // namespace

simulator::DeviceSpec device_of_launch(const simulator::DeviceSpec& device, const Header& header) {
  if (header.cores < 2 || device.name == "trn1") return device;
  simulator::DeviceSpec one = simulator::with_shared_stack(device, header.cores);
  one.kernel_fixed_ns = {device.kernel_fixed_ns + kSeveralCoresNs, Grade::kFitted,
                         "docs/measurements/predictions.md, half 0: launches on two cores"};
  return one;
}

}  // namespace neuronmm::trace
