#include "gguf/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace neuronmm::gguf {
namespace {

using Scaling = io::Llama3RopeScaling;

// The largest relative error of a divisor. The files' divisors were computed in fp32, where a
// difference of nearly equal numbers loses at most three of seven digits.
constexpr double kTolerance = 1e-4;
// The context of all Llama 3 models before scaling.
constexpr double kOriginalContext = 8192;
// The smallest value that io/model_config accepts.
constexpr double kLeastFrequencyFactor = 1e-6;
constexpr double kFactors[] = {2, 4, 8, 16, 32, 64};

// Returns the turns per position of pair j without scaling.
double turns_of(size_t j, size_t pairs, double theta) {
  const double exponent = -static_cast<double>(j) / static_cast<double>(pairs);
  return std::pow(theta, exponent) / (2.0 * std::numbers::pi);
}

// Returns the share of the unscaled frequency: 1 / divisor = (1 - share) / factor + share.
double unscaled_share(double divisor, double factor) {
  return (1.0 / divisor - 1.0 / factor) / (1.0 - 1.0 / factor);
}

double divisor_of(double turns, const Scaling& scaling) {
  const double low = scaling.low_freq_factor, high = scaling.high_freq_factor;
  const double over_context = turns * scaling.original_max_position_embeddings;
  const double share = std::clamp((over_context - low) / (high - low), 0.0, 1.0);
  return 1.0 / ((1.0 - share) / scaling.factor + share);
}

bool gives_divisors(const Scaling& scaling, std::span<const float> divisors, double theta) {
  for (size_t j = 0; j < divisors.size(); ++j) {
    const double expected = divisor_of(turns_of(j, divisors.size(), theta), scaling);
    if (std::abs(divisors[j] - expected) > kTolerance * expected) return false;
  }
  return true;
}

std::optional<Scaling> find_published(std::span<const float> divisors, double theta,
                                      std::optional<int64_t> original_context, double largest) {
  std::vector<double> contexts = {kOriginalContext};
  if (original_context) contexts.insert(contexts.begin(), static_cast<double>(*original_context));
  for (double context = 16; context <= 131072; context *= 2) contexts.push_back(context);
  std::vector<double> factors = {largest};
  factors.insert(factors.end(), std::begin(kFactors), std::end(kFactors));
  for (const double context : contexts) {
    for (const double factor : factors) {
      const Scaling scaling{factor, 1.0, 4.0, context};
      if (gives_divisors(scaling, divisors, theta)) return scaling;
    }
  }
  return std::nullopt;
}

// Fits the unscaled share, which is a line over the turns per position, from 0 at `turns_at_0` to 1
// at `turns_at_1`. The line goes through two blended pairs if there are two. With one blended pair
// it goes through that pair and one end. Without blended pairs it lies between the scaled and the
// unscaled pairs.
Scaling fit(std::span<const float> divisors, double theta, double context, double factor) {
  struct BlendPoint {
    double turns, share;
  };
  std::vector<BlendPoint> blended;
  double scaled = 0.0, unscaled = 2.0 * turns_of(0, divisors.size(), theta);
  for (size_t j = 0; j < divisors.size(); ++j) {
    const BlendPoint point{turns_of(j, divisors.size(), theta),
                           unscaled_share(divisors[j], factor)};
    if (point.share > 1.0 - kTolerance)
      unscaled = std::min(unscaled, point.turns);
    else if (point.share < kTolerance)
      scaled = std::max(scaled, point.turns);
    else
      blended.push_back(point);
  }
  double turns_at_0 = scaled, turns_at_1 = unscaled;
  if (blended.size() > 1) {
    const BlendPoint &first = blended.front(), &last = blended.back();
    const double slope = (first.share - last.share) / (first.turns - last.turns);
    turns_at_0 = last.turns - last.share / slope;
    turns_at_1 = turns_at_0 + 1.0 / slope;
  } else if (blended.size() == 1) {
    const BlendPoint& only = blended.front();
    turns_at_1 = turns_at_0 + (only.turns - turns_at_0) / only.share;
    if (turns_at_1 > unscaled) {
      turns_at_1 = unscaled;
      turns_at_0 = (only.turns - only.share * turns_at_1) / (1.0 - only.share);
    }
  }
  return {factor, std::max(context * turns_at_0, kLeastFrequencyFactor), context * turns_at_1,
          context};
}

}  // namespace

double llama3_divisor(size_t j, size_t pairs, double theta, const Scaling& scaling) {
  return divisor_of(turns_of(j, pairs, theta), scaling);
}

Result<std::optional<Scaling>> llama3_scaling(std::span<const float> divisors, double theta,
                                              std::optional<int64_t> original_context,
                                              const std::string& what) {
  for (const float divisor : divisors) {
    if (!(divisor >= 1.0f && divisor < 1e9f))
      return fail("{}: expected divisors from 1 to 1e9, found {}", what, divisor);
  }
  const double largest = *std::ranges::max_element(divisors);
  if (largest == 1.0) return std::optional<Scaling>();
  if (const auto published = find_published(divisors, theta, original_context, largest))
    return published;
  const double context =
      original_context ? static_cast<double>(*original_context) : kOriginalContext;
  const Scaling fitted = fit(divisors, theta, context, largest);
  const bool possible = fitted.low_freq_factor >= 0.0 &&
                        fitted.high_freq_factor > fitted.low_freq_factor &&
                        gives_divisors(fitted, divisors, theta);
  if (!possible)
    return fail("{}: expected the divisors of Llama 3's RoPE scaling, found others", what);
  return std::optional<Scaling>(fitted);
}

}  // namespace neuronmm::gguf
