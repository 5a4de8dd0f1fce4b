#pragma once
// Parses `neuronmm nki --what-if`, which simulates the same kernel on a changed machine or with
// other buffers.

#include <string>
#include <vector>

#include "base/result.h"
#include "trainium/simulator/device_spec.h"
#include "trainium/trace/file.h"
#include "trainium/trace/simulate.h"

namespace neuronmm::apps {

// A change, in the form that the simulation takes (trace/simulate.h).
struct WhatIf {
  std::string text;                   // The text of the flag.
  simulator::DeviceSpec device;       // The changed device.
  trace::BufferLimits buffer_limits;  // The limits of `buffers`; without that change, no limits.
  trace::LeftOut left_out = trace::LeftOut::kNothing;
};

// Parses one change. Fails on any other text and lists the possible changes.
//   buffers=3         Three tensors of each name take turns.
//   buffers.NAME=3    Three tensors of this name take turns, also if the kernel made only one.
//   dma_row=2x        DMA moves twice as many bytes per contiguous row, in half as many rows and
//                     transfers.
//   reloads=none      Loads of bytes that were loaded before take no time.
//   round_trips=none  Transfers of tensors in HBM that only the kernel itself uses take no time.
//   transfers=none    No transfer takes time.
//   PARAMETER=2x      A number of the device is multiplied by 2.
//   PARAMETER=100     A number of the device is replaced by 100.
Result<WhatIf> parse_what_if(const std::string& text, const simulator::DeviceSpec& device);

// Simulates a kernel with a change. Fails if the changed kernel does not fit, or if it has no
// tensor of a name that the change gives.
Result<trace::TraceTiming> simulate_with(const WhatIf& what_if, const trace::TraceFile& file,
                                         bool as_written);

}  // namespace neuronmm::apps
