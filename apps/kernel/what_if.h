#pragma once
// The same kernel on a machine, or with buffers, that are not so: `neuronmm nki --what-if`.

#include <string>
#include <vector>

#include "base/result.h"
#include "trainium/simulator/device_spec.h"
#include "trainium/trace/tensor_memory.h"

namespace neuronmm::apps {

struct WhatIf {
  std::string text;  // as it was asked for
  simulator::DeviceSpec device;
  trace::Rotation rotation;
};

// What may be asked for:
//   buffers=3        three tensors of each name take turns; buffers.NAME=3: of this name alone
//   dma_row=2x       DMA moves twice as many bytes per contiguous row, with half as many rows
//   PARAMETER=2x     a number of the device times 2; PARAMETER=100: instead of it
// Fails on anything else, naming what there is.
Result<WhatIf> parse_what_if(const std::string& text, const simulator::DeviceSpec& device);

}  // namespace neuronmm::apps
