#pragma once
// This file simulates a whole request to a model on a NeuronCore, with the published length. The
// figures end-to-end and quality use it.

#include <string_view>
#include <vector>

#include "base/result.h"
#include "eval/latency.h"
#include "io/model_config.h"
#include "ops/backend.h"
#include "trainium/validation/published_models.h"

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

// A published request, simulated on one core of trn1.
struct RequestRow {
  validation::PublishedRequest published;
  int64_t rank = 0;
  // The bytes of the dense model's weights over those of the compressed model's.
  double bytes_ratio = 0;
  Request dense, low_rank;

  double speedup() const { return dense.whole / low_rank.whole; }
  double difference() const { return speedup() / published.speedup - 1; }
};

// Simulates the published requests of the models in `models`, or of all models if it is empty. The
// compressed models have the ranks that `compress` would choose. Fails if no request of the models
// is published.
Result<std::vector<RequestRow>> simulate_published_requests(const std::vector<std::string>& models);

}  // namespace neuronmm::apps
