#pragma once
// What an instruction of a trace costs: every call of nki.isa, with the shapes and dtypes of its
// operands. The figures are those of the cost tables that AWS published up to SDK 2.26 and of the
// architecture guides (see simulator/costs.h and device_spec.cc); where there is none, pricing.cc
// says what is assumed.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "trainium/simulator/device_spec.h"
#include "trainium/simulator/dma.h"
#include "trainium/simulator/job.h"
#include "trainium/trace/accesses.h"
#include "trainium/trace/header.h"

namespace neuronmm::trace {

// An operation on operands of certain shapes. Only where in their tensors they lie may differ from
// one instruction to the next.
struct Priced {
  simulator::Job job;
  int64_t streamed = 0;          // elements per partition, on Vector, Scalar and GpSimd
  simulator::TensorWork tensor;  // on the Tensor engine
  simulator::Transfer transfer;  // of a DMA; its first partition is that of operand `on_chip`
  int32_t on_chip = -1;          // -1: both sides in HBM
  int64_t sbuf_read = 0, sbuf_write = 0, psum_read = 0, psum_write = 0;  // bytes, by engines
  bool nothing = false;  // takes no time (a scalar register of the Sync engine)
};

// Whether an operation is known, and possible on this device.
Status check_operation(const Operation& operation, const simulator::DeviceSpec& device);

// `forms`: of the operands, in order. The operation has been checked. Fails where operands are not
// what the operation takes.
Result<Priced> price(const Operation& operation, const std::vector<const Form*>& forms,
                     const simulator::DeviceSpec& device);

}  // namespace neuronmm::trace
