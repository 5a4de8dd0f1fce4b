#pragma once
// An instruction as the simulation of a core (core.h) sees it: the engines that may run it and its
// cost on each of them. Tile programs (schedule.h) and traces (trainium/trace/pricing.h) both make
// jobs.

#include <cstdint>

#include "trainium/simulator/costs.h"

namespace neuronmm::simulator {

enum class Kind : uint8_t { kDma, kMatmul, kTranspose, kCopy, kBinary, kActivate, kMemset, kOther };

inline constexpr int32_t kNoTable = -1;

// The part of an instruction that is the same in every execution.
struct Job {
  Kind kind = Kind::kDma;
  bool touches_psum = false;
  // Fields of kMatmul and kTranspose.
  bool fp32 = false;
  TensorCost tensor;
  // The part of the Tensor engine's array that the job uses, one bit for each of 4 x 4 squares of
  // 32 rows and 32 columns. Jobs on disjoint parts run at the same time.
  uint16_t array_part = kWholeArray;
  // The compute engines that may run the job, and its cost on each of them.
  bool on_vector = false, on_scalar = false, on_gpsimd = false;
  EngineCost vector, scalar, gpsimd;
  int32_t table = kNoTable;  // kActivate: the function table that Scalar must have loaded.
  // kDma: the source is in HBM; the destination is in HBM; one of them is on chip (false: both are
  // in HBM).
  bool loads = false, stores = false, spans_partitions = true;

  static constexpr uint16_t kWholeArray = 0xffff;
};

// The sizes of one matmul or transpose.
struct TensorWork {
  // [contraction, rows]^T x [contraction, columns].
  int64_t contraction = 0, rows = 0, columns = 0;
};

// When an instruction ran and which times it could have waited for, in ns. The simulation does not
// use it again; the analysis of stalls (trainium/trace/stalls.h) does.
struct Run {
  Unit unit = Unit::kDma;
  double begin = 0;         // When a compute engine begins, or when a transfer is issued.
  double table_ns = 0;      // The load of an activation table just before `begin`.
  double engine_free = 0;   // When the engine finished its earlier work; unset for transfers.
  double port_free = 0;     // When no other engine held the port to PSUM or SBUF (NeuronCore-v2).
  double end = 0;           // When the engine is free, or a transfer's last byte has moved.
  double visible = 0;       // When consumers see the result.
  int queue = 0;            // The queue of a transfer.
  double ready = 0;         // When the data and the destination of a transfer were ready.
  double sequencer_ns = 0;  // How long a sequencer took to trigger the transfer.
};

}  // namespace neuronmm::simulator
