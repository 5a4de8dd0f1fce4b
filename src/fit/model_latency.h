#pragma once
// Times whole models with one sequence: a prompt, and then one token after the other. `fit` and
// Costs use it.

#include <span>

#include "eval/latency.h"
#include "fit/seconds.h"
#include "io/model_config.h"

namespace neuronmm::fit {

// Returns settings with a prompt of kPromptTokens, or of as many tokens as the model takes.
eval::LatencySettings latency_settings(const io::ModelConfig& config, int64_t runs);

// How many times as fast the second model was as the first. Both are upper quartiles over runs that
// took turns.
struct Speedups {
  double decode = 0.0, prefill = 0.0;
};
Speedups upper_quartiles(std::span<const eval::RunLatency> dense,
                         std::span<const eval::RunLatency> model);

// Returns a quantile over all decode calls and over the prefills of all runs.
Seconds median_seconds(std::span<const eval::RunLatency> runs);
Seconds lower_quartile_seconds(std::span<const eval::RunLatency> runs);

}  // namespace neuronmm::fit
