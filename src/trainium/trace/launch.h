#pragma once
// What a launch on several cores changes for each of them.

#include "trainium/simulator/device_spec.h"
#include "trainium/trace/header.h"

namespace neuronmm::trace {

// The device as one core of the kernel's launch has it: alone, as `device` says, or beside another
// core on the same stack of HBM. Of the legacy dialect a grid is a loop, not cores.
simulator::DeviceSpec device_of_launch(const simulator::DeviceSpec& device, const Header& header);

}  // namespace neuronmm::trace
