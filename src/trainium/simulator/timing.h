#pragma once
// How long a program takes on one NeuronCore, what it moves and who is busy. One pass over the
// program in program order: each engine and each DMA queue works through its instructions in order,
// an instruction starts when its engine is free, its inputs are visible and the cells that it
// writes are no longer in use. Rotating buffers, PSUM banks and fetching ahead follow from that.

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainium/simulator/device_spec.h"
#include "trainium/simulator/residency.h"
#include "trainium/simulator/summary.h"
#include "trainium/simulator/trace.h"
#include "trainium/tile/program.h"

namespace neuronmm::simulator {

struct TimingOptions {
  Trace* trace = nullptr;                  // filled when given
  bool throttle = false;                   // the dI/dt ramp of trn2 and trn3
  std::optional<double> model_flops = {};  // of the problem, without recomputation and padding
  // Give up as soon as it is certain that the program takes longer, ns.
  std::optional<double> longest_ns = {};
};

struct Timing {
  Summary summary;
  int64_t instructions = 0;
  tile::MemoryUse sbuf_wanted;        // before the remedies
  int64_t sbuf_capacity = 0;          // per partition
  std::vector<std::string> remedies;  // what it took to fit into SBUF, see residency.h
  bool gave_up = false;               // it takes longer than `longest_ns`; the rest is of no use
};

// Fails on a malformed program (naming the instruction) and on one that cannot be made to fit.
Result<Timing> simulate(const tile::Program& program, const DeviceSpec& device,
                        const TimingOptions& options = {});

}  // namespace neuronmm::simulator
