#pragma once
// This file simulates a whole request to a model on a NeuronCore, with the published length. The
// end-to-end figures use it.

#include <string_view>

#include "base/result.h"
#include "eval/latency.h"
#include "io/model_config.h"
#include "ops/backend.h"

namespace neuronmm::apps {

// The length of the published requests.
inline constexpr eval::LatencySettings kRequest{.prompt_tokens = 32, .new_tokens = 32, .runs = 1};

// The times of one request.
struct Request {
  // All times are in ms. `decode` is the average for one token.
  double prefill = 0, decode = 0, whole = 0;
  int64_t decodes = 0;
};

// Simulates a request on `backend`. The weights are zeros that take no memory, because the timing
// backend reads only shapes.
Result<Request> simulate_request(const io::ModelConfig& config, std::string_view name,
                                 const ops::Backend& backend);

}  // namespace neuronmm::apps
