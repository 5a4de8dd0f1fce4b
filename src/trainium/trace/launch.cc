#include "trainium/trace/launch.h"

#include <algorithm>

namespace neuronmm::trace {

namespace {

using simulator::Grade;

// Documented (Trainium2 and Trainium3 architecture): eight cores, four stacks.
constexpr double kCoresOnStack = 2;

// Fitted: the least mean absolute error over the rows of half 0 of docs/predictions.md, on two
// cores of trn2 (25,000 ns beyond the fixed cost of one core). The 14 instructions of rmsnorm_quant
// alone show 15,500. What it is made of is not public; cores that start apart and wait for each
// other would be. trn3: assumed the same.
constexpr double kSeveralCoresNs = 25000;

}  // namespace

simulator::DeviceSpec device_of_launch(const simulator::DeviceSpec& device, const Header& header) {
  simulator::DeviceSpec one = device;
  if (header.cores < 2 || device.name == "trn1") return one;
  one.kernel_fixed_ns = {device.kernel_fixed_ns + kSeveralCoresNs, Grade::kFitted,
                         "docs/predictions.md, half 0: launches on two cores"};
  one.hbm_bandwidth = {
      std::min(device.hbm_bandwidth.value, device.hbm_stack_bandwidth / kCoresOnStack),
      Grade::kDocumented, "two cores share a stack"};
  return one;
}

}  // namespace neuronmm::trace
