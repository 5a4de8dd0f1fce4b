#pragma once
// Measures answers. The listener of this file stands between the engine and the listener of a
// response: it records times and token counts for /metrics, then passes each call on. It also
// records how long a simulated device takes, which the server sends in the headers X-Predicted-*.

#include <atomic>
#include <functional>
#include <memory>

#include "serve/engine/request.h"
#include "serve/http/metrics.h"

namespace neuronmm::serve {

// Times on the clock of a simulated device, in seconds since the computation of the prompt began.
// If a request has several prompts, the longest time counts. A negative value is not known yet. The
// engine's thread writes and the thread of the sockets reads.
struct PredictedTimes {
  std::atomic<double> first_token = -1.0, total = -1.0;
};

// The clock that a listener reads and the places where it records times.
struct MeasurementTargets {
  Metrics* metrics = nullptr;
  std::function<double()> device_clock;       // a simulated device's, in seconds; empty without one
  std::shared_ptr<PredictedTimes> predicted;  // null without a simulated device
};

// Returns a listener that measures and passes everything on to `listener`. It must be created when
// the request arrives, because its times count from its creation.
std::shared_ptr<Listener> make_measured_listener(std::shared_ptr<Listener> listener,
                                                 const Request& request,
                                                 const MeasurementTargets& targets);

}  // namespace neuronmm::serve
