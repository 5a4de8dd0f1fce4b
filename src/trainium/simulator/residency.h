#pragma once
// What the compiler does with a program that wants more SBUF than there is. The published kernels
// do, and their profiles show the remedies (NKIBench matmul, kernel optimization tutorial "block",
// NeuronMM's baselines). For the buffers that are live where most is wanted, the first that makes
// them fit is taken, and again until all of the program fits:
//   1. a load in a sequential loop, whose data lives across a loop that loads other things, is sunk
//      into that loop, so that it is read once per iteration; if that is not enough, buffers rotate
//      only in what room is left, so that fewer loads are fetched ahead;
//   2. sums that stay are spilled: what does not fit is saved to HBM and reloaded at each visit,
//      through a staging area;
//   3. or the largest loaded buffer streams: its tiles are loaded when they are used, through what
//      room is left, and nothing is sunk.
// Where both 2 and 3 make a program fit there are two plans, and the timing model takes the faster.
// The order of the first against the others is that of NeuronMM's baselines at 8192 rows, whose
// traffic is that of a sunk load; the choice between the others is that of nki-autotune's issue 25,
// where the same kernel with larger blocks loses a tenth and not a third to what does not fit.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainium/simulator/device_spec.h"
#include "trainium/tile/checker.h"
#include "trainium/tile/memory_use.h"
#include "trainium/tile/program.h"

namespace neuronmm::simulator {

// What a program may use of the device.
tile::Limits limits_of(const DeviceSpec& device);

// "24.50 MiB: sums 16.00 MiB + x_block 4.00 MiB (2 copies) + ...".
std::string describe(const tile::Program& program, const tile::MemoryUse& use);

// A buffer that is not wholly resident.
struct Partial {
  tile::BufferId buffer = -1;
  bool streams = false;  // its tiles come from an operand in HBM; else they are spilled
  // Bytes per partition: those that stay, and those through which the others come and go.
  int64_t resident_bytes = 0, staging_bytes = 0;
};

struct Residency {
  tile::Program program;         // with its loads sunk and its rotations dropped
  std::vector<double> rotation;  // per buffer: instances that it has room for
  std::vector<Partial> partials;
  tile::MemoryUse wanted;             // before any remedy
  int64_t capacity = 0;               // per partition
  std::vector<std::string> remedies;  // what was done, one line each
};

// One plan, or two to choose from. Fails when PSUM is oversubscribed, or SBUF beyond every remedy.
Result<std::vector<Residency>> make_resident(const tile::Program& program,
                                             const DeviceSpec& device);

}  // namespace neuronmm::simulator
