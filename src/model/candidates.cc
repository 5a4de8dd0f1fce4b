#include "model/candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace neuronmm::model {
namespace {

double total_weight(std::span<const Candidate> candidates) {
  double total = 0.0;
  for (const Candidate& candidate : candidates) total += candidate.weight;
  return total;
}

// Keeps the most likely candidates until there are `count` of them or their weights reach `mass`,
// but at least one. Among equal candidates the smaller id comes first. A heap only orders the
// candidates that are kept: a small share of a vocabulary of 128k tokens with a usual top_p.
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

// Returns the probabilities at temperature 1 of the candidates among each other.
std::vector<double> probabilities(std::vector<Candidate> candidates,
                                  std::span<const double> logits) {
  weigh_again(candidates, logits, 1.0);
  const double total = total_weight(candidates);
  std::vector<double> shares;
  shares.reserve(candidates.size());
  for (const Candidate& candidate : candidates) shares.push_back(candidate.weight / total);
  return shares;
}

}  // namespace

// Weights relative to the largest one cannot overflow, and only their ratios matter.
std::vector<Candidate> softmax_weights(std::span<const double> logits, double temperature) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  for (const double logit : logits) {
    // The largest logit gets weight 1 even if it is infinite, because infinity minus infinity is
    // NaN.
    const double weight = logit == largest ? 1.0 : std::exp((logit - largest) / temperature);
    candidates.push_back({static_cast<TokenId>(candidates.size()), weight});
  }
  return candidates;
}

void weigh_again(std::vector<Candidate>& candidates, std::span<const double> logits,
                 double temperature) {
  const auto logit = [&](const Candidate& c) { return logits[static_cast<size_t>(c.id)]; };
  const double largest = logit(*std::ranges::max_element(candidates, {}, logit));
  for (Candidate& candidate : candidates) {
    const double behind = logit(candidate) - largest;
    candidate.weight = logit(candidate) == largest ? 1.0 : std::exp(behind / temperature);
  }
}

void keep_top_k(std::vector<Candidate>& candidates, size_t count) {
  if (count >= candidates.size()) return;
  keep_most_likely(candidates, count, std::numeric_limits<double>::infinity());
}

void keep_top_p(std::vector<Candidate>& candidates, double probability) {
  keep_most_likely(candidates, candidates.size(), probability * total_weight(candidates));
}

void keep_min_p(std::vector<Candidate>& candidates, double share) {
  std::erase_if(candidates, [share](const Candidate& c) { return c.weight < share; });
}

void keep_typical(std::vector<Candidate>& candidates, std::span<const double> logits,
                  double probability) {
  struct Surprise {
    double distance;  // of the candidate's information from the entropy
    double probability;
    Candidate candidate;
  };
  const std::vector<double> shares = probabilities(candidates, logits);
  double entropy = 0.0;
  for (const double share : shares) entropy -= share > 0.0 ? share * std::log(share) : 0.0;
  std::vector<Surprise> order;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (shares[i] > 0.0)
      order.push_back({std::abs(-std::log(shares[i]) - entropy), shares[i], candidates[i]});
  }
  std::ranges::stable_sort(order, {}, &Surprise::distance);
  candidates.clear();
  double kept = 0.0;
  for (const Surprise& next : order) {
    candidates.push_back(next.candidate);
    kept += next.probability;
    if (kept > probability) break;
  }
}

void leave_out_top_choices(std::vector<Candidate>& candidates, std::span<const double> logits,
                           double threshold) {
  if (threshold > 0.5) return;
  const std::vector<double> shares = probabilities(candidates, logits);
  std::optional<size_t> least;
  for (size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] >= threshold && (!least || shares[i] <= shares[*least])) least = i;
  }
  if (!least) return;
  std::vector<Candidate> kept;
  for (size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] < threshold || i == *least) kept.push_back(candidates[i]);
  }
  candidates = std::move(kept);
}

TokenId draw(std::span<const Candidate> candidates, double uniform) {
  double left = uniform * total_weight(candidates);
  TokenId last_possible = candidates.front().id;
  for (const Candidate& candidate : candidates) {
    if (candidate.weight <= 0.0) continue;
    last_possible = candidate.id;
    if (left < candidate.weight) return candidate.id;
    left -= candidate.weight;
  }
  return last_possible;  // the sum was rounded, so that a little is left after the last candidate
}

}  // namespace neuronmm::model
