#pragma once
// The queue of one compute engine and a count of its busy time. Core (core.h) has one per engine.

#include <algorithm>
#include <cstdint>

#include "trainium/simulator/summary.h"

namespace neuronmm::simulator {

// An engine that runs its instructions in order. Times are in ns.
struct InOrderEngine {
  double free = 0;
  double active = 0, active_end = 0;  // The union of the instructions' times from begin to result.
  double instruction_time = 0;
  int64_t count = 0;

  void run(double begin, double interval, double latency) {
    free = begin + interval;
    const double end = free + latency;
    active += std::max(0.0, end - std::max(begin, active_end));
    active_end = std::max(active_end, end);
    instruction_time += interval;
    ++count;
  }
  EngineSummary summary() const {
    return {.instruction_time = instruction_time * 1e-9,
            .active_time = active * 1e-9,
            .instruction_count = count};
  }
};

}  // namespace neuronmm::simulator
