#pragma once
// Simulates how long a traced kernel takes on one NeuronCore, what it moves, which engines are
// busy, and how much of the time each source line costs. `neuronmm nki` calls it.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainium/simulator/device_spec.h"
#include "trainium/simulator/timing.h"
#include "trainium/trace/class_work.h"
#include "trainium/trace/evidence.h"
#include "trainium/trace/file.h"
#include "trainium/trace/repeated_traffic.h"
#include "trainium/trace/stalls.h"
#include "trainium/trace/tensor_memory.h"

namespace neuronmm::trace {

struct TraceOptions {
  // The timeline, the throttle, and the FLOPs of the problem, which are the file's by default.
  simulator::TimingOptions timing;
  BufferLimits buffer_limits;            // By default what the kernel states (Header::rotates).
  LeftOut left_out = LeftOut::kNothing;  // Transfers that take no time.
  // Simulates a kernel of the legacy dialect in the program's order, instead of as its compiler
  // might schedule it. A kernel that states its copies is always simulated so.
  bool as_written = false;
};

// The time of each resource if nothing ever waited for anything else, in ns.
struct TraceBound {
  // The own work of each engine.
  double tensor_ns = 0, vector_ns = 0, scalar_ns = 0, gpsimd_ns = 0;
  // All transfers, shared equally by the DMA engines, or their bytes at the rate of HBM.
  double dma_ns = 0;
  double compulsory_ns = 0;  // Inputs and outputs once, at the rate of all DMA engines together.
};

// The stalls of one line. The stalls of all lines and the kernel's fixed cost add up to the
// latency.
struct LineReport : LineStalls {
  uint32_t source = 0;  // An index in Header::sources.
};

struct MemoryPeak {
  int64_t bytes = 0, capacity = 0;  // Bytes per partition.
  std::string tensors;              // The tensors that are live there, by name and line.
};

struct TraceTiming {
  simulator::Timing timing;
  std::vector<LineReport> lines;     // Sorted by stalled time, longest first.
  std::vector<ChargedTime> charged;  // Its times and the fixed cost add up to the latency.
  std::vector<ChainPart> chain;      // These add up to the same.
  std::vector<RepeatedBytes> repeated;
  // By tensor name, for tensors that the chain waits for because they are in use: how many of the
  // name are live at the same time.
  std::map<std::string, int64_t> live_copies;
  TraceBound bound;
  // The kernel's fixed cost, which is part of the latency and larger for a launch on several cores.
  double fixed_ns = 0;
  MemoryPeak sbuf, psum;
  std::vector<ClassWork> classes;  // The work by instruction name and engine.
  // Bytes of all inputs and outputs, each moved once. If a kernel moves only a part of one, that
  // part counts.
  int64_t compulsory_bytes = 0;
  std::vector<std::string> notes;  // The tracer's notes, and what the simulation found odd.
};

// Simulates a trace. Fails if the trace is damaged or an operation is unknown. Fails if the tensors
// of a kernel of the new dialect do not fit into SBUF or PSUM. The message names file, line and
// tensors.
Result<TraceTiming> simulate(const TraceFile& file, const simulator::DeviceSpec& device,
                             const TraceOptions& options = {});

// Returns whether the compiler of the kernel's dialect might reorder its instructions, so that
// `as_written` makes a difference.
bool may_be_rescheduled(const TraceFile& file);

}  // namespace neuronmm::trace
