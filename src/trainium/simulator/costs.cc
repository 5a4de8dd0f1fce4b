#include "trainium/simulator/costs.h"

namespace neuronmm::simulator {

namespace {

using tile::Memory;

// Returns true for 16-bit elements, which the fast modes of the Vector engine are for.
bool is_16_bit(OperandKind operand) { return dtype_size_bytes(operand.dtype) == 2; }

// Computes a cost in ns from cycles. The sustained limit stretches the cycles in which columns
// stream. It does not affect weight loading and latency, which do not keep the multipliers busy.
TensorCost tensor_cost(const DeviceSpec& d, int instruction_pairs, double cycles_per_column,
                       double minimum) {
  const double ns = 1.0 / d.tensor_ghz;
  return {.ns_per_column = cycles_per_column * ns / d.matmul_utilization_limit,
          .minimum_ns = minimum * ns / d.matmul_utilization_limit,
          .overhead_ns = d.matmul_overhead * ns,
          .weight_load_ns_per_column = ns / d.weight_load_rate,
          .latency_ns = d.matmul_latency * ns,
          .instruction_pairs = instruction_pairs};
}

}  // namespace

// The tables of nki.isa are in cycles of the engine that runs the instruction. All later code uses
// ns.
EngineCost engine_cost(const DeviceSpec& d, Unit unit, double elements_per_cycle) {
  const Parameter* ghz = &d.vector_ghz;
  const Parameter* fixed = &d.vector_fixed;
  const Parameter* latency = &d.vector_latency;
  if (unit == Unit::kScalar) {
    ghz = &d.scalar_ghz, fixed = &d.scalar_fixed, latency = &d.scalar_latency;
  } else if (unit == Unit::kGpSimd) {
    ghz = &d.gpsimd_ghz, fixed = &d.gpsimd_fixed, latency = &d.gpsimd_latency;
  }
  return {.ns_per_element = 1.0 / elements_per_cycle / *ghz,
          .minimum_ns = d.engine_minimum / *ghz,
          .fixed_ns = *fixed / *ghz,
          .latency_ns = *latency / *ghz};
}

// An fp32 matmul is issued as two halves, each with half of the passes over its columns. Profiles
// show them as two MultiplyMoving for one nc_matmul.
TensorCost matmul_cost(const DeviceSpec& device, DType dtype) {
  if (dtype != DType::kF32) return tensor_cost(device, 1, 1, device.matmul_minimum);
  return tensor_cost(device, 2, device.fp32_passes / 2, device.matmul_minimum);
}

// The moving operand of a transpose is the identity, so the columns do not depend on the free size
// of the data.
TensorCost transpose_cost(const DeviceSpec& device, DType dtype) {
  if (dtype != DType::kF32) return tensor_cost(device, 1, 1, device.matmul_minimum);
  return tensor_cost(device, 2, device.fp32_transpose_passes / 2, device.matmul_minimum);
}

// Only Vector has faster modes: for 16-bit elements on both sides, and for copies inside SBUF. A
// copy of wider elements between SBUF and PSUM runs at one element per cycle on every engine.
EngineCost copy_cost(const DeviceSpec& device, Unit unit, OperandKind dst, OperandKind src) {
  double rate = 1;
  if (unit == Unit::kVector) {
    const bool sbuf = dst.memory == Memory::kSbuf && src.memory == Memory::kSbuf;
    if (is_16_bit(dst) && is_16_bit(src)) {
      rate = sbuf ? device.vector_fast_16bit : device.vector_fast_psum;
    } else if (sbuf) {
      rate = device.vector_fast_32bit;
    }
  }
  return engine_cost(device, unit, rate);
}

// Source: the cost table of nki.isa. Inputs from different memories take one cycle per element. Two
// inputs from the same memory take two cycles, unless all three operands are 16-bit and the fast
// mode applies.
EngineCost binary_cost(const DeviceSpec& device, OperandKind dst, OperandKind a, OperandKind b) {
  if (a.memory != b.memory) return engine_cost(device, Unit::kVector, 1);
  const bool all_16_bit = is_16_bit(dst) && is_16_bit(a) && is_16_bit(b);
  return engine_cost(device, Unit::kVector,
                     all_16_bit ? static_cast<double>(device.vector_fast_binary) : 0.5);
}

EngineCost activation_cost(const DeviceSpec& device) {
  return engine_cost(device, Unit::kScalar, 1);
}

// Source: the cost table of nki.isa. Zeros of 16 bits are written two per cycle, other values one
// per cycle.
EngineCost memset_cost(const DeviceSpec& device, Unit unit, OperandKind dst, bool zero) {
  return engine_cost(device, unit, zero && is_16_bit(dst) ? 2 : 1);
}

}  // namespace neuronmm::simulator
