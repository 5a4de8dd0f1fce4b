#include "compress/sizes/rank.h"

#include <cmath>

namespace neuronmm::compress {
namespace {

// The distance within which a quotient counts as a whole number, or as the middle between two.
// Ratios such as 0.2 are not exact in binary. Quotients are below 2^20 and have a relative rounding
// error below 1e-15.
constexpr double kWholeTolerance = 1e-9;

}  // namespace

int64_t nearest_whole(double blocks) {
  const double whole = std::round(blocks);
  if (std::abs(blocks - whole) < kWholeTolerance) return static_cast<int64_t>(whole);
  const double below = std::floor(blocks), rest = blocks - below;
  const bool tie = std::abs(rest - 0.5) < kWholeTolerance;
  const bool up = tie ? std::fmod(below, 2.0) != 0.0 : rest > 0.5;
  return static_cast<int64_t>(below) + (up ? 1 : 0);
}

// The rank at which r·(K + N) = (1 - ratio)·K·N, rounded to whole blocks.
int64_t aligned_rank(int64_t in_features, int64_t out_features, const RankRule& rule) {
  const double k = static_cast<double>(in_features), n = static_cast<double>(out_features);
  const double blocks = k * n * (1.0 - rule.ratio) / ((k + n) * static_cast<double>(rule.block));
  return nearest_whole(blocks) * rule.block;
}

double kept_share(int64_t in_features, int64_t out_features, int64_t rank) {
  return static_cast<double>(rank * (in_features + out_features)) /
         static_cast<double>(in_features * out_features);
}

// From the break-even rank on, two factors have at least as many parameters as the weight.
bool saves_parameters(int64_t in_features, int64_t out_features, int64_t rank) {
  return rank * (in_features + out_features) < in_features * out_features;
}

}  // namespace neuronmm::compress
