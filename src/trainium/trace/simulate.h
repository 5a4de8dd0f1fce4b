#pragma once
// How long a traced kernel takes on one NeuronCore, what it moves, who is busy, and which of its
// source lines the time goes to.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainium/simulator/device_spec.h"
#include "trainium/simulator/timing.h"
#include "trainium/trace/file.h"
#include "trainium/trace/stalls.h"
#include "trainium/trace/tensor_memory.h"

namespace neuronmm::trace {

struct TraceOptions {
  simulator::TimingOptions
      timing;  // the timeline, the throttle; model_flops: by default the file's
  Rotation rotation;
  // A kernel of the legacy dialect as the program has it, and not as its compiler might schedule
  // it.
  bool as_written = false;
};

// What the kernel would take if nothing ever waited for anything else, ns.
struct TraceBound {
  double tensor_ns = 0, vector_ns = 0, scalar_ns = 0, gpsimd_ns = 0;  // each engine's own work
  double dma_ns = 0;         // all transfers, spread over the engines as they are
  double compulsory_ns = 0;  // inputs and outputs once, at the rate of all engines together
};

// A line's stalls; those of all lines and the fixed cost of a kernel are the latency.
struct LineReport : LineStalls {
  uint32_t source = 0;  // in Header::sources
};

struct MemoryPeak {
  int64_t bytes = 0, capacity = 0;  // per partition
  std::string tensors;              // that are live there, by name and line
};

struct TraceTiming {
  simulator::Timing timing;
  std::vector<LineReport> lines;  // the one that stalls the kernel longest first
  TraceBound bound;
  double fixed_ns = 0;  // of the kernel, in its latency; more for a launch on several cores
  MemoryPeak sbuf, psum;
  // Inputs and outputs once; of one that is moved in part only, that part.
  int64_t compulsory_bytes = 0;
  std::vector<std::string> notes;  // what the tracer says, and what was found odd
};

// Fails where the trace is damaged, where an operation is not known, and where the tensors of a
// kernel of the new dialect do not fit into SBUF or PSUM; the message names file, line and tensors.
Result<TraceTiming> simulate(const TraceFile& file, const simulator::DeviceSpec& device,
                             const TraceOptions& options = {});

}  // namespace neuronmm::trace
