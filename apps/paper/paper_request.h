#pragma once
// A whole request to a model on the simulated NeuronCore, of the length that is published.

#include <string_view>

#include "base/result.h"
#include "eval/latency.h"
#include "io/model_config.h"
#include "ops/backend.h"

namespace neuronmm::apps {

inline constexpr eval::LatencySettings kRequest{.prompt_tokens = 32, .new_tokens = 32, .runs = 1};

struct Request {
  double prefill = 0, decode = 0, whole = 0;  // ms; decode of one token, on average
  int64_t decodes = 0;
};

// Weights are zeros that take no memory: the timing backend reads shapes only.
Result<Request> simulate_request(const io::ModelConfig& config, std::string_view name,
                                 const ops::Backend& backend);

}  // namespace neuronmm::apps
