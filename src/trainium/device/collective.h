#pragma once
// Estimates what an exchange of partial sums between cores costs. Published link figures are used
// where they exist. No result has been compared with a measurement.
//
//   seconds = steps · (step_ns + bytes of a step / bandwidth)
//
// An all-reduce of B bytes over p cores takes the faster of two algorithms:
//   - A ring has 2(p - 1) steps. Each core moves B/p bytes per step.
//   - Direct exchange has one step. Each core receives (p - 1)·B bytes, which suits small B, as
//     in decoding.
//
// The bandwidth is that of a core's DMA engines, limited by the core's share of HBM. Across chips
// it is also limited by the links of its chip. A ring gets a quarter of them, because it leaves a
// chip by one of four neighbours (assumed). Direct exchange gives each core an equal part
// (assumed). step_ns is the device's collective_step (assumed for all devices).

#include <cstdint>

#include "trainium/simulator/device_spec.h"

namespace neuronmm::device {

// Returns the time of an all-reduce of `bytes` bytes over `cores` cores, 0 for one core.
double all_reduce_seconds(const simulator::DeviceSpec& device, int64_t cores, double bytes);

}  // namespace neuronmm::device
