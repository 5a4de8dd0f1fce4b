#pragma once
// An instruction as the simulation of a core sees it, wherever it comes from: which engines may run
// it, and what it costs there.

#include <cstdint>

#include "trainium/simulator/costs.h"

namespace neuronmm::simulator {

enum class Kind : uint8_t { kDma, kMatmul, kTranspose, kCopy, kBinary, kActivate, kMemset, kOther };

inline constexpr int32_t kNoTable = -1;

// What does not change from one execution of an instruction to the next.
struct Job {
  Kind kind = Kind::kDma;
  bool touches_psum = false;
  // kMatmul, kTranspose.
  bool fp32 = false;
  TensorCost tensor;
  // The part of the Tensor engine's array that it takes, a bit for each of 4 x 4 squares of 32 rows
  // and 32 columns. Jobs on parts that do not overlap run side by side.
  uint16_t array_part = kWholeArray;
  // Which of Vector, Scalar, GpSimd may run it, and at what cost.
  bool on_vector = false, on_scalar = false, on_gpsimd = false;
  EngineCost vector, scalar, gpsimd;
  int32_t table = kNoTable;  // kActivate: the function whose table Scalar has to have loaded
  // kDma: from HBM, to HBM; between HBM and partitions, or inside HBM.
  bool loads = false, stores = false, spans_partitions = true;

  static constexpr uint16_t kWholeArray = 0xffff;
};

// What one matmul or transpose streams.
struct TensorWork {
  int64_t contraction = 0, rows = 0, columns = 0;  // [contraction, rows]^T x [contraction, columns]
};

// When an instruction ran and what it could have waited for, ns. For those who ask why (stalls of a
// trace); the simulation itself does not need it again.
struct Run {
  Unit unit = Unit::kDma;
  double begin = 0;        // on a compute engine; of a transfer: when it is issued
  double table_ns = 0;     // the load of an activation table, just before `begin`
  double engine_free = 0;  // when the engine was done with what it had; not of a transfer
  double port_free = 0;    // when no other engine held the port to PSUM or SBUF (NeuronCore-v2)
  double end = 0;          // the engine is free, the transfer's last byte has moved
  double visible = 0;      // to consumers
  int queue = 0;           // of a transfer
};

}  // namespace neuronmm::simulator
