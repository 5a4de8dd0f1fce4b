#pragma once
// Adjusts a device to a launch on several cores. The trace of such a launch is that of one core.

#include "trainium/simulator/device_spec.h"
#include "trainium/trace/header.h"

namespace neuronmm::trace {

// Returns the device as one core of the kernel's launch sees it. Two cores share a stack of HBM. In
// the legacy dialect a grid is a loop and not a number of cores, so the device stays as it is.
simulator::DeviceSpec device_of_launch(const simulator::DeviceSpec& device, const Header& header);

}  // namespace neuronmm::trace
