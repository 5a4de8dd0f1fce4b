#include "model/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/result.h"

namespace neuronmm::model {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Candidate {
  TokenId id;
  double weight;  // proportional to its probability
};

// NaN counts as impossible, so that one bad logit cannot decide anything.
std::vector<double> readable(std::span<const float> logits) {
  std::vector<double> values(logits.begin(), logits.end());
  for (double& value : values) value = std::isnan(value) ? -kInfinity : value;
  return values;
}

// Every token counts once, however often it was seen. A penalty makes a logit smaller whatever its
// sign, so that positive ones are divided and negative ones multiplied.
void penalise(std::vector<double>& logits, std::span<const TokenId> seen, double penalty) {
  std::vector<TokenId> distinct(seen.begin(), seen.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for (TokenId id : distinct) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size()) continue;
    double& logit = logits[static_cast<size_t>(id)];
    logit = logit > 0.0 ? logit / penalty : logit * penalty;
  }
}

// Weights are relative to the most likely token, which has 1: they cannot overflow, and only their
// ratios matter.
std::vector<Candidate> softmax(const std::vector<double>& logits, double temperature) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  for (double logit : logits) {
    // The largest gets 1 even when it is infinite, where the difference would be NaN.
    const double weight = logit == largest ? 1.0 : std::exp((logit - largest) / temperature);
    candidates.push_back({static_cast<TokenId>(candidates.size()), weight});
  }
  return candidates;
}

double total_weight(const std::vector<Candidate>& candidates) {
  double total = 0.0;
  for (const Candidate& candidate : candidates) total += candidate.weight;
  return total;
}

// Keeps the most likely candidates (ties: the smaller id) until there are `count` or their weights
// reach `mass`; at least one. A heap orders only as many as are kept: with 128k tokens and a usual
// top_p that is a small share.
void keep_most_likely(std::vector<Candidate>& candidates, size_t count, double mass) {
  const auto less_likely = [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight < b.weight : a.id > b.id;
  };
  std::make_heap(candidates.begin(), candidates.end(), less_likely);
  std::vector<Candidate> kept;
  double kept_mass = 0.0;
  do {
    std::pop_heap(candidates.begin(), candidates.end(), less_likely);
    kept.push_back(candidates.back());
    candidates.pop_back();
    kept_mass += kept.back().weight;
  } while (!candidates.empty() && kept.size() < count && kept_mass < mass);
  candidates = std::move(kept);
}

// `uniform` in [0, 1).
TokenId draw(const std::vector<Candidate>& candidates, double uniform) {
  double left = uniform * total_weight(candidates);
  TokenId last_possible = candidates.front().id;
  for (const Candidate& candidate : candidates) {
    if (candidate.weight <= 0.0) continue;
    last_possible = candidate.id;
    if (left < candidate.weight) return candidate.id;
    left -= candidate.weight;
  }
  return last_possible;  // rounding left a crumb beyond the last
}

}  // namespace

Sampler::Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {}

TokenId Sampler::sample(std::span<const float> logits, std::span<const TokenId> seen) {
  NMM_CHECK(!logits.empty());
  std::vector<double> values = readable(logits);
  if (options_.repetition_penalty != 1.0) penalise(values, seen, options_.repetition_penalty);
  if (options_.temperature <= 0.0)
    return static_cast<TokenId>(std::max_element(values.begin(), values.end()) - values.begin());

  std::vector<Candidate> candidates = softmax(values, options_.temperature);
  if (options_.top_k > 0 && static_cast<size_t>(options_.top_k) < candidates.size())
    keep_most_likely(candidates, static_cast<size_t>(options_.top_k), kInfinity);
  if (options_.top_p < 1.0)
    keep_most_likely(candidates, candidates.size(), options_.top_p * total_weight(candidates));
  // 53 random bits: the same double in [0, 1) on every platform, unlike std's distributions.
  return draw(candidates, static_cast<double>(random_() >> 11) * 0x1p-53);
}

}  // namespace neuronmm::model
