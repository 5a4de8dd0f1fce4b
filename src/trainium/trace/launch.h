#pragma once
// Adjusts a device to a launch on several cores. The trace of such a launch is that of one core.
// simulate() (simulate.h) calls it first. Nothing here can fail.

#include "trainium/simulator/device_spec.h"
#include "trainium/trace/header.h"

namespace neuronmm::trace {

// Returns the device as one core of the kernel's launch sees it. If header.cores is at least 2, a
// launch has a larger fixed cost, and the core has only its share of the HBM stack's bandwidth. On
// trn1 the device stays as it is. So it does in the legacy dialect, where a grid is a loop and not
// a number of cores.
simulator::DeviceSpec device_of_launch(const simulator::DeviceSpec& device, const Header& header);

}  // namespace neuronmm::trace
