#pragma once
// Simulates how long a tile program takes on one NeuronCore, what it moves and which engines are
// busy. The simulation is one pass over the program in program order. Each engine and each DMA
// queue works through its instructions in order. An instruction starts when its engine is free, its
// inputs are visible and the cells that it writes are no longer in use. The effects of rotating
// buffers, PSUM banks and fetching ahead follow from these rules.
//
// `neuronmm simulate`, the tuner (tuner/tuner.h), the figures of `neuronmm paper`, the simulated
// device (device/mlp_program.h) and the validation against published times call simulate(). Traced
// kernels have a simulate() of their own (trace/simulate.h).

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainium/simulator/device_spec.h"
#include "trainium/simulator/residency.h"
#include "trainium/simulator/summary.h"
#include "trainium/simulator/timeline.h"
#include "trainium/tile/program.h"

namespace neuronmm::simulator {

struct TimingOptions {
  Timeline* timeline = nullptr;  // A timeline to fill, or null.
  bool throttle = false;         // Applies the dI/dt ramp of trn2 and trn3.
  // FLOPs of the problem, without recomputation and padding.
  std::optional<double> model_flops = {};
  // A limit in ns. The simulation gives up as soon as the program certainly takes longer.
  std::optional<double> longest_ns = {};
};

struct Timing {
  Summary summary;
  int64_t instructions = 0;
  tile::MemoryUse sbuf_wanted;  // The memory that the program needs without remedies.
  int64_t sbuf_capacity = 0;    // Bytes per partition.
  // The changes that made the program fit into SBUF; see residency.h.
  std::vector<std::string> remedies;
  // True if the program takes longer than `longest_ns`. All other fields are then meaningless.
  bool gave_up = false;
};

// Simulates the program. Fails on a malformed program, with an error that names the instruction,
// and on a program that cannot be made to fit into SBUF or PSUM, with an error that says what takes
// the memory. To give up at `longest_ns` is no error; the caller must look at Timing::gave_up.
Result<Timing> simulate(const tile::Program& program, const DeviceSpec& device,
                        const TimingOptions& options = {});

}  // namespace neuronmm::simulator
