#pragma once
// Decides what the compiler does with a program that needs more SBUF than there is. Some published
// kernels do, and their profiles show the remedies (NKIBench matmul, kernel optimization tutorial
// "block", NeuronMM's baselines). The planner looks at the buffers that are live where the program
// needs most, and takes the first remedy that makes them fit. It repeats that until the whole
// program fits.
//   1. Loads sink. A load in a sequential loop may hold its data across an inner loop that loads
//      other things. The load moves into that inner loop and is repeated in each of its iterations.
//      If that is not enough, buffers rotate only in the free memory, so fewer loads are
//      fetched ahead.
//   2. Sums are spilled. The part that does not fit is saved to HBM and reloaded at each visit,
//      through a staging area.
//   3. Alternatively, the largest loaded buffer streams. Its tiles are loaded when they are used,
//      through the free memory, and no load sinks.
// If both 2 and 3 make a program fit, there are two plans, and the timing model takes the faster
// one.
//
// Remedy 1 comes first because of NeuronMM's baselines at 8192 rows: their traffic is that of a
// sunk load. The choice between 2 and 3 follows nki-autotune's issue 25, where the same kernel with
// larger blocks loses a tenth of its speed, not a third, when its data does not fit.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainium/simulator/device_spec.h"
#include "trainium/tile/checker.h"
#include "trainium/tile/memory_use.h"
#include "trainium/tile/program.h"

namespace neuronmm::simulator {

// Returns the limits of the device that a program must keep.
tile::Limits limits_of(const DeviceSpec& device);

// Describes a peak of memory: "24.50 MiB: sums 16.00 MiB + x_block 4.00 MiB (2 copies) + ...".
std::string describe(const tile::Program& program, const tile::MemoryUse& use);

// A buffer that is not wholly resident.
struct PartialBuffer {
  tile::BufferId buffer = -1;
  // True if its tiles come from an operand in HBM; false if they are spilled.
  bool streams = false;
  // Bytes per partition of the resident part, and of the staging area that the other tiles pass
  // through.
  int64_t resident_bytes = 0, staging_bytes = 0;
};

// A program that fits into SBUF, and how it was made to fit.
struct Residency {
  tile::Program program;         // The program with its loads sunk and its rotations dropped.
  std::vector<double> rotation;  // The number of instances that each buffer has memory for.
  std::vector<PartialBuffer> partials;
  tile::MemoryUse wanted;             // The memory that the program needs without remedies.
  int64_t capacity = 0;               // Bytes per partition.
  std::vector<std::string> remedies;  // The remedies that were applied, one line each.
};

// Returns one plan, or two to choose from. Fails if PSUM is oversubscribed, or if no remedy makes
// SBUF large enough.
Result<std::vector<Residency>> make_resident(const tile::Program& program,
                                             const DeviceSpec& device);

}  // namespace neuronmm::simulator
