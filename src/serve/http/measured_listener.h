#pragma once
// Looks on while the engine tells of an answer, for the metrics and for the header that says what a
// simulated device would have taken.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "serve/engine/request.h"
#include "serve/http/metrics.h"

namespace neuronmm::serve {

// On the clock of a simulated device, in seconds since the prompt's computation began; of several
// prompts the one that took longest. Negative: not known yet.
struct PredictedTimes {
  std::atomic<double> first_token = -1.0, total = -1.0;
};

struct Measures {
  Metrics* metrics = nullptr;
  std::function<double()> device_clock;       // of a simulated device; empty without one
  std::shared_ptr<PredictedTimes> predicted;  // the same
};

// Created when the request arrives.
std::shared_ptr<Listener> measured(std::shared_ptr<Listener> listener, const Request& request,
                                   const Measures& measures);

}  // namespace neuronmm::serve
