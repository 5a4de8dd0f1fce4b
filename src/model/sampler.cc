#include "model/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/result.h"

namespace neuronmm::model {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

// NaN counts as impossible, so that one bad logit cannot decide anything.
std::vector<double> readable(std::span<const float> logits) {
  std::vector<double> values(logits.begin(), logits.end());
  for (double& value : values) value = std::isnan(value) ? kImpossible : value;
  return values;
}

bool contains(TokenSet set, size_t id) { return set.empty() || (set[id / 64] >> id % 64 & 1) != 0; }

void forbid_others(std::span<double> logits, TokenSet allowed) {
  if (allowed.empty()) return;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (!contains(allowed, id)) logits[id] = kImpossible;
  }
}

}  // namespace

Sampler::Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {}

std::vector<double> Sampler::processed(std::span<const float> logits,
                                       std::span<const TokenId> prompt,
                                       std::span<const TokenId> generated, TokenSet allowed) const {
  std::vector<double> values = readable(logits);
  add_biases(values, options_.logit_bias);
  if (options_.repetition_penalty != 1.0)
    penalise_repetition(values, prompt, generated, options_.repetition_penalty);
  if (options_.frequency_penalty != 0.0)
    penalise_frequency(values, generated, options_.frequency_penalty);
  if (options_.presence_penalty != 0.0)
    penalise_presence(values, generated, options_.presence_penalty);
  forbid_others(values, allowed);
  return values;
}

std::vector<Candidate> Sampler::candidates(std::span<const float> logits,
                                           std::span<const TokenId> prompt,
                                           std::span<const TokenId> generated,
                                           TokenSet allowed) const {
  auto candidates =
      softmax_weights(processed(logits, prompt, generated, allowed), options_.temperature);
  if (!allowed.empty())
    std::erase_if(candidates, [&](const Candidate& c) {
      return !contains(allowed, static_cast<size_t>(c.id));
    });
  if (options_.top_k > 0) keep_top_k(candidates, static_cast<size_t>(options_.top_k));
  if (options_.top_p < 1.0) keep_top_p(candidates, options_.top_p);
  if (options_.min_p > 0.0) keep_min_p(candidates, options_.min_p);
  return candidates;
}

TokenId Sampler::sample(std::span<const float> logits, std::span<const TokenId> prompt,
                        std::span<const TokenId> generated, TokenSet allowed) {
  NMM_CHECK(!logits.empty());
  if (options_.temperature <= 0.0) {
    const std::vector<double> values = processed(logits, prompt, generated, allowed);
    return static_cast<TokenId>(std::ranges::max_element(values) - values.begin());
  }
  // 53 random bits: the same double in [0, 1) on every platform, unlike std's distributions.
  return draw(candidates(logits, prompt, generated, allowed),
              static_cast<double>(random_() >> 11) * 0x1p-53);
}

}  // namespace neuronmm::model
