#pragma once
// Whole models, timed: one sequence, a prompt and then token after token.

#include <span>

#include "eval/latency.h"
#include "fit/seconds.h"
#include "io/model_config.h"

namespace neuronmm::fit {

// As long a prompt as kPromptTokens, or as the model takes.
eval::LatencySettings latency_settings(const io::ModelConfig& config, int64_t runs);

// How many times as fast the second model was as the first, of runs that took turns: the upper
// quartiles.
struct Speedups {
  double decode = 0.0, prefill = 0.0;
};
Speedups upper_quartiles(std::span<const eval::RunLatency> dense,
                         std::span<const eval::RunLatency> model);

// Of all decode calls, and of the runs' prefills.
Seconds median_seconds(std::span<const eval::RunLatency> runs);
Seconds lower_quartile_seconds(std::span<const eval::RunLatency> runs);

}  // namespace neuronmm::fit
