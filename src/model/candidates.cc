#include "model/candidates.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>

#include "base/pieces.h"

namespace neuronmm::model {
namespace {

// The work of an exponential and of a comparison in fp64 (base/pieces.h). Assumed.
constexpr int64_t kExponentialWork = 500, kComparisonWork = 10;

// Returns the largest of count > 0 values.
template <typename Value>
double largest_value(int64_t count, const Value& value) {
  std::mutex mutex;
  double largest = -std::numeric_limits<double>::infinity();
  for_each_piece(count, kComparisonWork, [&](int64_t first, int64_t last) {
    double of_piece = value(first);
    for (int64_t i = first + 1; i < last; ++i) of_piece = std::max(of_piece, value(i));
    const std::lock_guard lock(mutex);
    largest = std::max(largest, of_piece);
  });
  return largest;
}

double total_weight(std::span<const Candidate> candidates) {
  double total = 0.0;
  for (const Candidate& candidate : candidates) total += candidate.weight;
  return total;
}

// Removes candidates that cannot be among the most likely `count`, or among the most likely ones
// whose weights reach `mass`. It takes one pass, which counts the weights by their exponents.
void remove_unlikely(std::vector<Candidate>& candidates, size_t count, double mass) {
  // Sums of the same weights in another order differ by less than this share of them.
  constexpr double kRounding = 1e-9;
  constexpr size_t kExponents = 2048;
  const auto exponent = [](const Candidate& candidate) {
    return std::bit_cast<uint64_t>(candidate.weight) >> 52 & (kExponents - 1);
  };
  std::vector<size_t> counts(kExponents);
  std::vector<double> sums(kExponents);
  for (const Candidate& candidate : candidates) {
    ++counts[exponent(candidate)];
    sums[exponent(candidate)] += candidate.weight;
  }
  size_t lowest = kExponents - 1, kept = counts[lowest];
  double kept_mass = sums[lowest];
  const auto enough = [&] { return kept >= count || kept_mass >= mass * (1 + kRounding); };
  while (lowest > 0 && (kept == 0 || !enough())) {
    --lowest;
    kept += counts[lowest];
    kept_mass += sums[lowest];
  }
  std::erase_if(candidates, [&](const Candidate& c) { return exponent(c) < lowest; });
}

// Keeps the most likely candidates until there are `count` of them or their weights reach `mass`,
// but at least one. Among equal candidates the smaller id comes first. A heap only orders the
// candidates that are kept: a small share of a vocabulary of 128k tokens with a usual top_p.
void keep_most_likely(std::vector<Candidate>& candidates, size_t count, double mass) {
  const auto less_likely = [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight < b.weight : a.id > b.id;
  };
  remove_unlikely(candidates, count, mass);
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
  const auto logit = [&](int64_t i) { return logits[static_cast<size_t>(i)]; };
  const double largest = largest_value(std::ssize(logits), logit);
  std::vector<Candidate> candidates(logits.size());
  for_each_piece(std::ssize(logits), kExponentialWork, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      // The largest logit gets weight 1 even if it is infinite, because infinity minus infinity is
      // NaN.
      const double weight =
          logit(i) == largest ? 1.0 : std::exp((logit(i) - largest) / temperature);
      candidates[static_cast<size_t>(i)] = {static_cast<TokenId>(i), weight};
    }
  });
  return candidates;
}

void weigh_again(std::vector<Candidate>& candidates, std::span<const double> logits,
                 double temperature) {
  const auto logit = [&](const Candidate& c) { return logits[static_cast<size_t>(c.id)]; };
  const auto at = [&](int64_t i) -> Candidate& { return candidates[static_cast<size_t>(i)]; };
  const auto count = std::ssize(candidates);
  const double largest = largest_value(count, [&](int64_t i) { return logit(at(i)); });
  for_each_piece(count, kExponentialWork, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const double behind = logit(at(i)) - largest;
      at(i).weight = logit(at(i)) == largest ? 1.0 : std::exp(behind / temperature);
    }
  });
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
