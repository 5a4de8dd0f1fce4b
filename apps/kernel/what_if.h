#pragma once
// Parses `neuronmm nki --what-if`, which simulates the same kernel on a changed machine or with
// other buffers.

#include <string>
#include <vector>

#include "base/result.h"
#include "trainium/simulator/device_spec.h"
#include "trainium/trace/tensor_memory.h"

namespace neuronmm::apps {

// A change, in the form that the simulation takes (trace/simulate.h).
struct WhatIf {
  std::string text;                   // The text of the flag.
  simulator::DeviceSpec device;       // The changed device.
  trace::BufferLimits buffer_limits;  // The limits of `buffers`; without that change, no limits.
};

// Parses one change. Fails on any other text and lists the possible changes.
//   buffers=3       Three tensors of each name take turns.
//   buffers.NAME=3  Three tensors of this name take turns.
//   dma_row=2x      DMA moves twice as many bytes per contiguous row, in half as many rows.
//   PARAMETER=2x    A number of the device is multiplied by 2.
//   PARAMETER=100   A number of the device is replaced by 100.
Result<WhatIf> parse_what_if(const std::string& text, const simulator::DeviceSpec& device);

}  // namespace neuronmm::apps
