#pragma once
// The search for the tiling of a kernel that is fastest on a device, by the timing model. Every
// tiling of the search space is built and checked for capacity; those that fit are ordered by a
// lower bound of their time (simulator/bound.h) and simulated until no bound is below what was
// found; those that move more bytes than what is as fast as any bound are left out. The result does
// not depend on the number of threads: the same tilings are simulated.
//
// Half a percent is less than the timing model can tell, while bytes are certain, cost energy and
// slow the neighbour on the same HBM: of the tilings within kSlack of the fastest, and no slower
// than the kernel's default, the best is the one that moves the fewest bytes.

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

class Cache;  // trainium/tuner/cache.h

inline constexpr double kSlack = 0.005;

struct Problem {
  const kernels::Kernel* kernel = nullptr;
  kernels::KernelShape shape;
  kernels::KernelOptions options;
  simulator::DeviceSpec device;
  kernels::TilingValues chosen = {};  // parameters that are not searched
  int64_t cores = 1;                  // that work at once: shape and device are those of one
};

struct Measurement {
  kernels::Tiling tiling;
  double latency_ns = 0;
  int64_t hbm_bytes = 0;
  simulator::Bound bound;
};

// Why a tiling is not the best one: it does not fit; one resource alone takes longer than the
// fastest tilings do in all; none does, but its instructions wait for one another; or it is as fast
// and moves more bytes.
enum class Loss { kCapacity, kTensor, kDma, kEviction, kWaiting, kTraffic };
inline constexpr int kNumLosses = 6;
std::string_view loss_name(Loss loss);

struct Losers {
  int64_t count = 0;
  kernels::Tiling closest;  // the one that came closest, when there is one
  std::string why;          // of that one, with numbers
};

struct Outcome {
  std::vector<Measurement> best;  // best first, at most `top`
  double fastest_ns = 0;          // of those simulated: at most kSlack above the fastest of all
  std::array<Losers, kNumLosses> losers;
  int64_t tilings = 0, fitting = 0, simulated = 0;  // of the search space
  int64_t compulsory_bytes = 0;                     // every operand over HBM once
  bool from_cache = false;
};

struct TuneOptions {
  int64_t top = 5;
  Cache* cache = nullptr;        // read first; gets what was measured, also when interrupted
  Progress* progress = nullptr;  // silent without
};

// Fails on a shape or option that the kernel does not take, where no tiling fits (naming the
// buffers that are too large), and when interrupted.
Result<Outcome> tune(const Problem& problem, const TuneOptions& options = {});

}  // namespace neuronmm::tuner
