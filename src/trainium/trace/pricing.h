#pragma once
// Prices an instruction of a trace: a call of nki.isa with the shapes and dtypes of its operands.
// The figures are those of the cost tables that AWS published up to SDK 2.26, and of the
// architecture guides (see simulator/costs.h and device_spec.cc). pricing.cc says what is assumed
// where no figure exists. Callers use PriceCache (price_cache.h), which caches the prices.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "trainium/simulator/device_spec.h"
#include "trainium/simulator/dma.h"
#include "trainium/simulator/job.h"
#include "trainium/trace/accesses.h"
#include "trainium/trace/header.h"

namespace neuronmm::trace {

// The price of an operation on operands of certain shapes. Instructions with the same price may
// differ only in where in their tensors the operands lie.
struct Priced {
  simulator::Job job;
  int64_t streamed = 0;          // Elements per partition, on Vector, Scalar and GpSimd.
  simulator::TensorWork tensor;  // The sizes on the Tensor engine.
  simulator::Transfer transfer;  // A DMA's; its first partition is that of operand `on_chip`.
  int32_t on_chip = -1;          // -1 if both sides are in HBM.
  // Bytes that compute engines move.
  int64_t sbuf_read = 0, sbuf_write = 0, psum_read = 0, psum_write = 0;
  bool takes_no_time = false;  // Takes no time (a scalar register of the Sync engine).
};

// Fails if an operation is unknown or not possible on this device.
Status check_operation(const Operation& operation, const simulator::DeviceSpec& device);

// Prices an operation that check_operation() has accepted. `forms` are those of the operands, in
// order. Fails if the operands are not what the operation takes.
Result<Priced> price(const Operation& operation, const std::vector<const Form*>& forms,
                     const simulator::DeviceSpec& device);

}  // namespace neuronmm::trace
