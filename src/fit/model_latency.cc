#include "fit/model_latency.h"

#include <vector>

namespace neuronmm::fit {
namespace {

// The tokens of an answer. They take 16 decode calls, which is enough for a median.
constexpr int64_t kDecoded = 17;

// Returns the sorted values at position quarters / 4.
Seconds quartile(std::span<const eval::RunLatency> runs, size_t quarters) {
  std::vector<double> prefills, decodes;
  for (const eval::RunLatency& run : runs) {
    prefills.push_back(run.context_encoding);
    decodes.insert(decodes.end(), run.token_generation.begin(), run.token_generation.end());
  }
  const auto at = [&](std::vector<double>& values) {
    std::ranges::sort(values);
    return values[quarters * values.size() / 4];
  };
  return {at(decodes), at(prefills)};
}

double upper_quartile(std::vector<double> values) {
  std::ranges::sort(values);
  return values[3 * values.size() / 4];
}

double decode_seconds(const eval::RunLatency& run) {
  double sum = 0.0;
  for (const double seconds : run.token_generation) sum += seconds;
  return sum;
}

}  // namespace

Speedups upper_quartiles(std::span<const eval::RunLatency> dense,
                         std::span<const eval::RunLatency> model) {
  std::vector<double> decodes, prefills;
  for (size_t i = 0; i < dense.size(); ++i) {
    decodes.push_back(decode_seconds(dense[i]) / decode_seconds(model[i]));
    prefills.push_back(dense[i].context_encoding / model[i].context_encoding);
  }
  return {upper_quartile(std::move(decodes)), upper_quartile(std::move(prefills))};
}

eval::LatencySettings latency_settings(const io::ModelConfig& config, int64_t runs) {
  const int64_t most = std::max<int64_t>(1, config.max_position_embeddings - kDecoded);
  return {.prompt_tokens = std::min(kPromptTokens, most), .new_tokens = kDecoded, .runs = runs};
}

Seconds median_seconds(std::span<const eval::RunLatency> runs) { return quartile(runs, 2); }
Seconds lower_quartile_seconds(std::span<const eval::RunLatency> runs) { return quartile(runs, 1); }

}  // namespace neuronmm::fit
