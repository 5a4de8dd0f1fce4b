#pragma once
// What every instruction costs on its engine, in ns: how long it keeps the engine (interval) and
// how much later its result can be used (latency).

#include <algorithm>
#include <cstdint>

#include "trainium/simulator/device_spec.h"
#include "trainium/tile/program.h"

namespace neuronmm::simulator {

enum class Unit : uint8_t { kTensor, kVector, kScalar, kGpSimd, kDma };
inline constexpr int kNumEngines = 4;  // without the DMA engines

// The streaming rate of an instruction on an engine: elements per partition and cycle.
struct EngineCost {
  double ns_per_element = 0, minimum_ns = 0, fixed_ns = 0, latency_ns = 0;
  double interval(int64_t elements) const {
    return std::max(minimum_ns, ns_per_element * static_cast<double>(elements) + fixed_ns);
  }
};

// A matmul (or transpose) is `halves` pairs of LoadStationary and MultiplyMoving.
struct TensorCost {
  double ns_per_column = 0, minimum_ns = 0, overhead_ns = 0;  // of one MultiplyMoving
  double weight_load_ns_per_column = 0;
  double latency_ns = 0;
  int halves = 1;
  double interval(int64_t columns) const {
    return halves *
           (std::max(minimum_ns, ns_per_column * static_cast<double>(columns)) + overhead_ns);
  }
  double weight_load(int64_t columns) const {
    return weight_load_ns_per_column * static_cast<double>(columns);
  }
};

TensorCost matmul_cost(const DeviceSpec& device, DType dtype);
TensorCost transpose_cost(const DeviceSpec& device, DType dtype);

// Where an operand lies and what it holds.
struct Place {
  tile::Memory memory = tile::Memory::kSbuf;
  DType dtype = DType::kBF16;
};
// Of an instruction that takes `elements_per_cycle` on Vector, Scalar or GpSimd.
EngineCost engine_cost(const DeviceSpec& device, Unit unit, double elements_per_cycle);
EngineCost copy_cost(const DeviceSpec& device, Unit unit, Place dst, Place src);
EngineCost binary_cost(const DeviceSpec& device, Place dst, Place a, Place b);
EngineCost activation_cost(const DeviceSpec& device);
EngineCost memset_cost(const DeviceSpec& device, Unit unit, Place dst, bool zero);

}  // namespace neuronmm::simulator
