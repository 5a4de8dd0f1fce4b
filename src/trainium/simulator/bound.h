#pragma once
// The least time that the timing model can give a program: the instructions of each resource back
// to back, at the prices of the model, as if nothing ever waited for anything else. It takes the
// loop nest as it is written, without walking it, so that it costs microseconds where a simulation
// costs a second.

#include "trainium/simulator/device_spec.h"
#include "trainium/tile/program.h"

namespace neuronmm::simulator {

struct Bound {
  double tensor_ns = 0;    // matmuls and transposes
  double dma_ns = 0;       // the busiest DMA engine, the core's share of HBM, or the queues' issue
  double eviction_ns = 0;  // Vector, Scalar and GpSimd: what leaves PSUM, sums, activations
  double fixed_ns = 0;     // of every kernel

  double ns() const;  // the last and the largest of the others
};

// Of a well-formed program that fits into SBUF (others move more than they say).
Bound bound(const tile::Program& program, const DeviceSpec& device);

}  // namespace neuronmm::simulator
