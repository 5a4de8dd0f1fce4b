#pragma once
// When requests come.

#include <cstdint>
#include <optional>
#include <vector>

namespace neuronmm::load {

struct ArrivalSettings {
  std::optional<double> rate;  // requests per second, on average; none: all at once
  // Of the gamma distribution that the times between two requests have. 1: a Poisson process; less:
  // in bursts; more: evener.
  double burstiness = 1.0;
  uint64_t seed = 0;
};

// Seconds after the start, ascending; the first request comes at 0.
std::vector<double> arrival_times(int64_t count, const ArrivalSettings& settings);

}  // namespace neuronmm::load
