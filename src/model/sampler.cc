#include "model/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/result.h"

namespace neuronmm::model {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

// Widens the logits and treats NaN as impossible, so that one bad logit cannot decide the choice.
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

bool leaves_logits_alone(const SamplingOptions& options) {
  return options.logit_bias.empty() && options.repetition_penalty == 1.0 &&
         options.frequency_penalty == 0.0 && options.presence_penalty == 0.0;
}

// Returns the index of the first largest logit, or 0 if all are NaN. The maxima are kept per lane,
// which compilers turn into vector instructions; a NaN never enters a maximum. The first occurrence
// is then searched in the best block only.
TokenId most_likely(std::span<const float> logits) {
  constexpr size_t kBlock = 1024, kLanes = 16;
  float best = -std::numeric_limits<float>::infinity();
  size_t best_block = 0;
  for (size_t block = 0; block < logits.size(); block += kBlock) {
    const auto part = logits.subspan(block, std::min(kBlock, logits.size() - block));
    std::array<float, kLanes> lanes;
    lanes.fill(best);
    const size_t whole = part.size() / kLanes * kLanes;
    for (size_t i = 0; i < whole; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = part[i + lane] > lanes[lane] ? part[i + lane] : lanes[lane];
      }
    }
    float largest = *std::ranges::max_element(lanes);
    for (const float x : part.subspan(whole)) largest = x > largest ? x : largest;
    if (largest > best) {
      best = largest;
      best_block = block;
    }
  }
  const auto at_best = std::ranges::find(logits.subspan(best_block), best);
  const size_t id = static_cast<size_t>(at_best - logits.subspan(best_block).begin()) + best_block;
  return static_cast<TokenId>(id < logits.size() ? id : 0);
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
    if (allowed.empty() && leaves_logits_alone(options_)) return most_likely(logits);
    const std::vector<double> values = processed(logits, prompt, generated, allowed);
    return static_cast<TokenId>(std::ranges::max_element(values) - values.begin());
  }
  // Takes 53 random bits, which give the same double in [0, 1) on every platform, unlike the
  // distributions of the standard library.
  return draw(candidates(logits, prompt, generated, allowed),
              static_cast<double>(random_() >> 11) * 0x1p-53);
}

}  // namespace neuronmm::model
