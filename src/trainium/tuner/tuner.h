#pragma once
// This file searches for the tiling of a kernel that is fastest on a device, by the timing model.
// The commands that build kernels call it. The result does not depend on the number of threads,
// because the same tilings are always simulated.
//
// Every tiling of the search space (search_space.h) is built and checked for capacity. The tilings
// that fit are ordered by a lower bound of their time (simulator/bound.h) and simulated until no
// bound is below the best time found. A tiling is left out if it moves more bytes than tilings that
// are already as fast as any bound allows.
//
// The best tiling is the one that moves the fewest bytes. It is chosen among the tilings within
// kSlack of the fastest that are not slower than the kernel's default. The timing model cannot
// resolve half a percent. The bytes, in contrast, are certain, cost energy, and slow the other core
// on the same HBM.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "trainium/kernels/registry.h"
#include "trainium/simulator/bound.h"
#include "trainium/simulator/device_spec.h"

namespace neuronmm::tuner {

class Cache;  // Defined in trainium/tuner/cache.h.

// The share by which a tiling may exceed the fastest time and still count as equally fast. Assumed.
inline constexpr double kSlack = 0.005;

// A kernel, a shape and a device whose best tiling is searched for.
struct Problem {
  const kernels::Kernel* kernel = nullptr;
  kernels::KernelShape shape;
  kernels::KernelOptions options;
  simulator::DeviceSpec device;
  kernels::TilingValues chosen = {};  // Parameters with a fixed value, which are not searched.
  int64_t cores = 1;  // The cores that work at once. Shape and device describe one of them.
};

// The time and traffic of one tiling.
struct Measurement {
  kernels::Tiling tiling;
  double latency_ns = 0;
  int64_t hbm_bytes = 0;
  simulator::Bound bound;
};

// Why the search rejects a tiling.
// * kCapacity: it does not fit.
// * kTensor, kDma, kElementwise: this resource alone takes longer than the whole of the fastest
//   tilings.
// * kWaiting: no resource alone takes that long, but its instructions wait for one another.
// * kTraffic: it is equally fast and moves more bytes.
enum class Rejection { kCapacity, kTensor, kDma, kElementwise, kWaiting, kTraffic };
inline constexpr int kNumRejections = 6;
std::string_view rejection_name(Rejection rejection);

// The tilings that are rejected for one reason.
struct RejectedTilings {
  int64_t count = 0;
  kernels::Tiling closest;  // The tiling that came closest, if there is one.
  std::string why;          // The reason for the closest tiling, with numbers.
};

// The result of a search.
struct Outcome {
  std::vector<Measurement> best;  // The best tilings, best first, at most `top`.
  // The shortest simulated time, which is at most kSlack above the fastest of all tilings.
  double fastest_ns = 0;
  std::array<RejectedTilings, kNumRejections> rejected;
  int64_t tilings = 0, fitting = 0, simulated = 0;  // Counts of the search space.
  int64_t compulsory_bytes = 0;                     // The bytes if every operand crosses HBM once.
  bool from_cache = false;
};

// How a search runs and how many tilings it returns (`top`).
struct TuneOptions {
  int64_t top = 5;
  // The cache is read first and receives what was measured, also after an interruption.
  Cache* cache = nullptr;
  Progress* progress = nullptr;  // Without it the search is silent.
};

// Returns the outcome of the search. Fails for a shape or option that the kernel does not support,
// and when interrupted. Also fails if no tiling fits; the error then names the buffers that are too
// large.
Result<Outcome> tune(const Problem& problem, const TuneOptions& options = {});

}  // namespace neuronmm::tuner
