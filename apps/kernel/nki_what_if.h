#pragma once
// A kernel with one thing about the machine, or about its buffers, changed.

#include <string>

#include "base/result.h"
#include "trainium/simulator/device_spec.h"
#include "trainium/trace/tensor_memory.h"

namespace neuronmm::apps {

struct WhatIf {
  std::string text;  // as it was asked for
  simulator::DeviceSpec device;
  trace::Rotation rotation;
};

// "buffers=3": at most three tensors of one name at a time. "dma_bandwidth=2x", "tensor_clock=2.8":
// a parameter of the device, by the names of parameter_rows(), times a factor or with another
// value. The error lists the names.
Result<WhatIf> read_what_if(const std::string& text, const simulator::DeviceSpec& device);

}  // namespace neuronmm::apps
