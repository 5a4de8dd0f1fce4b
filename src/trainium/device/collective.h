#pragma once
// What cores pay for exchanging partial sums, from published link figures where there are some.
// Nothing of it was compared with a measurement.
//
//   seconds = steps · (step_ns + bytes of a step / bandwidth)
//
//   all-reduce of B bytes over p cores   the faster of
//     a ring                   2(p - 1) steps of B/p bytes, each core's
//     everybody to everybody   a step of (p - 1)·B bytes: of few bytes, as in decoding
//   bandwidth    what a core's DMA engines move, and its part of HBM; across chips also of its
//                chip's links: of a ring, a quarter, because it leaves a chip by one of four
//                neighbours; of everybody to everybody, a core's part (both assumed)
//   step_ns      collective_step of the device: assumed for all

#include <cstdint>

#include "trainium/simulator/device_spec.h"

namespace neuronmm::device {

double all_reduce_seconds(const simulator::DeviceSpec& device, int64_t cores, double bytes);

}  // namespace neuronmm::device
