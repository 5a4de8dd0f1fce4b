#pragma once
// The cost of every instruction on its engine, in ns. The interval is how long the instruction
// occupies the engine. The latency is how much later its result can be used. Both simulators (tile
// programs and traces) price instructions with these functions, and the bound does, too.

#include <algorithm>
#include <cstdint>

#include "trainium/simulator/device_spec.h"
#include "trainium/tile/program.h"

namespace neuronmm::simulator {

enum class Unit : uint8_t { kTensor, kVector, kScalar, kGpSimd, kDma };
// The number of compute engines; the DMA engines are not counted.
inline constexpr int kNumEngines = 4;

// The cost of an instruction on Vector, Scalar or GpSimd, as a function of its elements per
// partition.
struct EngineCost {
  double ns_per_element = 0, minimum_ns = 0, fixed_ns = 0, latency_ns = 0;
  double interval(int64_t elements) const {
    return std::max(minimum_ns, ns_per_element * static_cast<double>(elements) + fixed_ns);
  }
};

// The cost of a matmul or transpose, which is `instruction_pairs` pairs of LoadStationary and
// MultiplyMoving.
struct TensorCost {
  double ns_per_column = 0, minimum_ns = 0, overhead_ns = 0;  // The cost of one MultiplyMoving.
  double weight_load_ns_per_column = 0;
  double latency_ns = 0;
  int instruction_pairs = 1;
  double interval(int64_t columns) const {
    return instruction_pairs *
           (std::max(minimum_ns, ns_per_column * static_cast<double>(columns)) + overhead_ns);
  }
  double weight_load(int64_t columns) const {
    return weight_load_ns_per_column * static_cast<double>(columns);
  }
};

TensorCost matmul_cost(const DeviceSpec& device, DType dtype);
TensorCost transpose_cost(const DeviceSpec& device, DType dtype);

// The memory and the dtype of an operand.
struct OperandKind {
  tile::Memory memory = tile::Memory::kSbuf;
  DType dtype = DType::kBF16;
};
// Returns the cost of an instruction that processes `elements_per_cycle` elements per partition and
// cycle.
EngineCost engine_cost(const DeviceSpec& device, Unit unit, double elements_per_cycle);
EngineCost copy_cost(const DeviceSpec& device, Unit unit, OperandKind dst, OperandKind src);
EngineCost binary_cost(const DeviceSpec& device, OperandKind dst, OperandKind a, OperandKind b);
EngineCost activation_cost(const DeviceSpec& device);
EngineCost memset_cost(const DeviceSpec& device, Unit unit, OperandKind dst, bool zero);

}  // namespace neuronmm::simulator
