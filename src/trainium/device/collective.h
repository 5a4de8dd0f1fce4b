#pragma once
// What cores pay for exchanging partial sums: a ring, from published link figures where there are
// some. Nothing of it was compared with a measurement.
//
//   seconds = steps · (step_ns + bytes of a step / bandwidth)
//
//   all-reduce of B bytes over p cores   2(p - 1) steps of B/p bytes, each core's
//   bandwidth    what a core's DMA engines move, and its part of HBM; across chips, a quarter of a
//                chip's links too: a ring leaves a chip by one of four neighbours (assumed)
//   step_ns      collective_step of the device: assumed for all

#include <cstdint>

#include "trainium/simulator/device_spec.h"

namespace neuronmm::device {

// What one core sends in an all-reduce of `bytes`.
double all_reduce_sent_bytes(int64_t cores, double bytes);
double all_reduce_seconds(const simulator::DeviceSpec& device, int64_t cores, double bytes);

}  // namespace neuronmm::device
