#include "model/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/result.h"

namespace neuronmm::model {
namespace {

// NaN counts as impossible, so that one bad logit cannot decide anything.
std::vector<double> readable(std::span<const float> logits) {
  std::vector<double> values(logits.begin(), logits.end());
  for (double& value : values)
    value = std::isnan(value) ? -std::numeric_limits<double>::infinity() : value;
  return values;
}

}  // namespace

Sampler::Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {}

std::vector<double> Sampler::processed(std::span<const float> logits,
                                       std::span<const TokenId> prompt,
                                       std::span<const TokenId> generated) const {
  std::vector<double> values = readable(logits);
  add_biases(values, options_.logit_bias);
  if (options_.repetition_penalty != 1.0)
    penalise_repetition(values, prompt, generated, options_.repetition_penalty);
  if (options_.frequency_penalty != 0.0)
    penalise_frequency(values, generated, options_.frequency_penalty);
  if (options_.presence_penalty != 0.0)
    penalise_presence(values, generated, options_.presence_penalty);
  return values;
}

std::vector<Candidate> Sampler::candidates(std::span<const float> logits,
                                           std::span<const TokenId> prompt,
                                           std::span<const TokenId> generated) const {
  auto candidates = softmax_weights(processed(logits, prompt, generated), options_.temperature);
  if (options_.top_k > 0) keep_top_k(candidates, static_cast<size_t>(options_.top_k));
  if (options_.top_p < 1.0) keep_top_p(candidates, options_.top_p);
  if (options_.min_p > 0.0) keep_min_p(candidates, options_.min_p);
  return candidates;
}

TokenId Sampler::sample(std::span<const float> logits, std::span<const TokenId> prompt,
                        std::span<const TokenId> generated) {
  NMM_CHECK(!logits.empty());
  if (options_.temperature <= 0.0) {
    const std::vector<double> values = processed(logits, prompt, generated);
    return static_cast<TokenId>(std::ranges::max_element(values) - values.begin());
  }
  // 53 random bits: the same double in [0, 1) on every platform, unlike std's distributions.
  return draw(candidates(logits, prompt, generated),
              static_cast<double>(random_() >> 11) * 0x1p-53);
}

}  // namespace neuronmm::model
