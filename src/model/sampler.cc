#include "model/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>

#include "base/pieces.h"
#include "base/result.h"

namespace neuronmm::model {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

// Widens the logits and treats NaN as impossible, so that one bad logit cannot decide the choice.
std::vector<double> readable(std::span<const float> logits) {
  constexpr int64_t kWidenWork = 8;  // assumed, see base/pieces.h
  std::vector<double> values(logits.size());
  for_each_piece(std::ssize(logits), kWidenWork, [&](int64_t first, int64_t last) {
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i) {
      values[i] = std::isnan(logits[i]) ? kImpossible : double{logits[i]};
    }
  });
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
         options.frequency_penalty == 0.0 && options.presence_penalty == 0.0 &&
         !options.penalises_recent_tokens() && !options.dry.active();
}

std::vector<TokenId> joined(std::span<const TokenId> prompt, std::span<const TokenId> generated) {
  std::vector<TokenId> text(prompt.begin(), prompt.end());
  text.insert(text.end(), generated.begin(), generated.end());
  return text;
}

std::span<const TokenId> last_tokens(std::span<const TokenId> text, int64_t count) {
  return count < 0 ? text : text.last(std::min(text.size(), static_cast<size_t>(count)));
}

// Applies the penalties that look at the end of the text, whether the model wrote it or not.
void penalise_recent(std::span<double> logits, std::span<const TokenId> text,
                     const SamplingOptions& options) {
  if (options.penalises_recent_tokens())
    penalise_repetition(logits, last_tokens(text, options.repeat_last_n), {},
                        options.repeat_penalty);
  penalise_repeated_sequences(logits, text, options.dry);
}

// The largest of some logits, and the first block that has it.
struct Largest {
  float value = -std::numeric_limits<float>::infinity();
  size_t block = 0;  // its first index
};

// Returns the largest of logits[first, last). The maxima are kept per lane, which compilers turn
// into vector instructions; a NaN never enters a maximum.
Largest largest_of(std::span<const float> logits, size_t first, size_t last) {
  constexpr size_t kBlock = 1024, kLanes = 16;
  Largest best = {.block = first};
  for (size_t block = first; block < last; block += kBlock) {
    const auto part = logits.subspan(block, std::min(kBlock, last - block));
    std::array<float, kLanes> lanes;
    lanes.fill(best.value);
    const size_t whole = part.size() / kLanes * kLanes;
    for (size_t i = 0; i < whole; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = part[i + lane] > lanes[lane] ? part[i + lane] : lanes[lane];
      }
    }
    float largest = *std::ranges::max_element(lanes);
    for (const float x : part.subspan(whole)) largest = x > largest ? x : largest;
    if (largest > best.value) best = {largest, block};
  }
  return best;
}

// Returns the index of the first largest logit, or 0 if all are NaN. The first occurrence is
// searched in the best block only.
TokenId most_likely(std::span<const float> logits) {
  constexpr int64_t kFloatWork = 4;  // assumed, see base/pieces.h
  std::mutex mutex;
  Largest best;
  for_each_piece(std::ssize(logits), kFloatWork, [&](int64_t first, int64_t last) {
    const Largest found = largest_of(logits, static_cast<size_t>(first), static_cast<size_t>(last));
    const std::lock_guard lock(mutex);
    const bool earlier = found.value == best.value && found.block < best.block;
    if (found.value > best.value || earlier) best = found;
  });
  const auto at_best = std::ranges::find(logits.subspan(best.block), best.value);
  const size_t id = static_cast<size_t>(at_best - logits.begin());
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
  if (options_.penalises_recent_tokens() || options_.dry.active())
    penalise_recent(values, joined(prompt, generated), options_);
  forbid_others(values, allowed);
  return values;
}

std::vector<Candidate> Sampler::candidates(std::span<const float> logits,
                                           std::span<const TokenId> prompt,
                                           std::span<const TokenId> generated,
                                           TokenSet allowed) const {
  return filtered(processed(logits, prompt, generated, allowed), allowed);
}

std::vector<Candidate> Sampler::filtered(std::span<const double> logits, TokenSet allowed) const {
  const double temperature = options_.temperature_last ? 1.0 : options_.temperature;
  auto candidates = softmax_weights(logits, temperature);
  if (!allowed.empty())
    std::erase_if(candidates, [&](const Candidate& c) {
      return !contains(allowed, static_cast<size_t>(c.id));
    });
  if (options_.top_k > 0) keep_top_k(candidates, static_cast<size_t>(options_.top_k));
  if (options_.typical_p < 1.0) {
    keep_typical(candidates, logits, options_.typical_p);
    weigh_again(candidates, logits, temperature);
  }
  if (options_.top_p < 1.0) keep_top_p(candidates, options_.top_p);
  if (options_.min_p > 0.0) keep_min_p(candidates, options_.min_p);
  if (options_.temperature_last) weigh_again(candidates, logits, options_.temperature);
  return candidates;
}

// Takes 53 random bits, which give the same double in [0, 1) on every platform, unlike the
// distributions of the standard library.
double Sampler::uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

TokenId Sampler::sample(std::span<const float> logits, std::span<const TokenId> prompt,
                        std::span<const TokenId> generated, TokenSet allowed) {
  NMM_CHECK(!logits.empty());
  const bool greedy = options_.temperature <= 0.0;
  if (greedy && allowed.empty() && leaves_logits_alone(options_)) return most_likely(logits);
  const std::vector<double> values = processed(logits, prompt, generated, allowed);
  if (greedy) return static_cast<TokenId>(std::ranges::max_element(values) - values.begin());
  std::vector<Candidate> candidates = filtered(values, allowed);
  if (options_.xtc_probability > 0.0 && candidates.size() > 1 &&
      uniform() <= options_.xtc_probability) {
    leave_out_top_choices(candidates, values, options_.xtc_threshold);
    weigh_again(candidates, values, options_.temperature);
  }
  return draw(candidates, uniform());
}

}  // namespace neuronmm::model
