#pragma once
// Computes a lower bound on the time that the timing model (timing.h) gives a program. The bound
// assumes that the instructions of each resource run back to back, at the model's prices, and that
// nothing waits for anything else. It is computed from the first and the last iteration of every
// loop, so it takes microseconds where a simulation takes a second. The tuner orders and discards
// candidates by it.

#include "trainium/simulator/device_spec.h"
#include "trainium/tile/program.h"

namespace neuronmm::simulator {

struct Bound {
  double tensor_ns = 0;  // Time of the matmuls and transposes.
  // The largest of the busiest DMA engine, the core's share of HBM, and the issue intervals of the
  // queues.
  double dma_ns = 0;
  // Time on Vector, Scalar and GpSimd: evictions from PSUM, sums, activations.
  double elementwise_ns = 0;
  double fixed_ns = 0;  // The fixed cost of every kernel.

  double ns() const;  // Returns `fixed_ns` plus the largest of the other times.
};

// Computes the bound of a well-formed program. The bound holds for programs that fit into SBUF:
// other programs move more bytes than their instructions say.
Bound bound(const tile::Program& program, const DeviceSpec& device);

}  // namespace neuronmm::simulator
