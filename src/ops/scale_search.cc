#include "ops/scale_search.h"

#include <algorithm>
#include <cmath>

namespace neuronmm::ops {
namespace {

// A zero point that gives the byte 0 to one of the codes: 4, with a multiplier of 1.
constexpr GroupOf4Bits kZeros = {1, 8};

// std::nearbyint for |x| < 2^22, in two additions that compilers make vector instructions of.
float nearest(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 · 2^23
  return (x + kMagic) - kMagic;
}
float clamp(float x, float low, float high) { return std::min(std::max(x, low), high); }

struct Range {
  float low = 0, high = 0;
};
Range range_of(const float* values, int64_t count) {
  const auto [low, high] = std::minmax_element(values, values + count);
  return {*low, *high};
}

// The step that covers a range with codes 0 ... 15 and a zero point of 4 ... 11.5.
float covering_step(Range range) {
  return std::max({(range.high - range.low) / 15, range.high / 11, -range.low / 11.5f});
}

float squared_error(const float* values, int64_t count, float scale, GroupOf4Bits group) {
  const float step = scale * static_cast<float>(group.sc), to_code = 1 / step;
  const float zero = static_cast<float>(group.zero()) / static_cast<float>(group.sc);
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float q = clamp(nearest(values[i] * to_code + zero), 0, 15);
    const float error = values[i] - (q - zero) * step;
    sum += error * error;
  }
  return sum;
}

struct Fit {
  GroupOf4Bits group = kZeros;
  float error = 0;
};

// Multipliers from 0.6 of what covers the range to one above it, each with the three zero points
// around the one that puts the range in the middle of the codes.
Fit fit_group(const float* values, int64_t count, float scale) {
  const Range range = range_of(values, count);
  const float covering = covering_step(range) / scale;
  const int least = std::clamp(static_cast<int>(0.6f * covering), 1, 16);
  const int most = std::clamp(static_cast<int>(std::ceil(covering)), 1, 16);
  Fit best = {kZeros, squared_error(values, count, scale, kZeros)};
  for (int sc = least; sc <= most; ++sc) {
    const float middle = 15 - (range.low + range.high) / (scale * static_cast<float>(sc));
    const int around = static_cast<int>(nearest(clamp(middle, 8, 23)));
    for (int zz = std::max(8, around - 1); zz <= std::min(23, around + 1); ++zz) {
      const GroupOf4Bits group = {sc, zz};
      if (!group.fits()) continue;
      const float error = squared_error(values, count, scale, group);
      if (error < best.error) best = {group, error};
    }
  }
  return best;
}

bf16 rounded(float scale) { return bf16::from_float(scale); }

}  // namespace

// The widest group gets a multiplier of about 6 to 16: the more, the finer can the others choose,
// and the sooner are bytes beyond ±127.
GridOf4Bits grid_of_4bits(const float* values, int64_t count, int64_t group) {
  constexpr std::array kMultipliers = {6.0f,  7.0f,  8.0f,  9.0f,  10.0f,
                                       11.0f, 12.0f, 13.5f, 15.0f, 16.5f};
  float widest = 0;
  for (int64_t first = 0; first < count; first += group) {
    widest =
        std::max(widest, covering_step(range_of(values + first, std::min(group, count - first))));
  }
  GridOf4Bits best = {bf16::from_float(0), {}};
  best.groups.fill(kZeros);
  float least = INFINITY;
  for (const float multiplier : kMultipliers) {
    GridOf4Bits grid = best;
    grid.scale = rounded(widest / multiplier);
    const float scale = grid.scale.to_float();
    if (!(scale > 0)) continue;
    float error = 0;
    for (int64_t first = 0; first < count; first += group) {
      const Fit fit = fit_group(values + first, std::min(group, count - first), scale);
      grid.groups[static_cast<size_t>(first / group)] = fit.group;
      error += fit.error;
    }
    if (error >= least) continue;
    least = error;
    best = grid;
  }
  return best;
}

uint8_t code_of_4bits(float value, float scale, GroupOf4Bits group) {
  if (!(scale > 0)) return static_cast<uint8_t>(group.zero() / group.sc);
  const float step = scale * static_cast<float>(group.sc);
  const float zero = static_cast<float>(group.zero()) / static_cast<float>(group.sc);
  return static_cast<uint8_t>(clamp(std::nearbyint(value / step + zero), 0, 15));
}

bf16 scale_of_6bits(const float* values, int64_t count) {
  const Range range = range_of(values, count);
  const float largest = std::max(std::abs(range.low), std::abs(range.high));
  bf16 best = rounded(largest / 31);
  float least = INFINITY;
  for (int i = 0; i <= 40; ++i) {  // 1.2, 1.1875, ... 0.7 of what covers the values
    const bf16 candidate = rounded(largest / 31 * (1.2f - 0.0125f * static_cast<float>(i)));
    const float scale = candidate.to_float();
    if (!(scale > 0)) break;
    const float to_byte = 1 / scale;
    float error = 0;
    for (int64_t j = 0; j < count; ++j) {
      const float off = values[j] - clamp(nearest(values[j] * to_byte), -31, 31) * scale;
      error += off * off;
    }
    if (error >= least) continue;
    least = error;
    best = candidate;
  }
  return best;
}

uint8_t code_of_6bits(float value, float scale) {
  const float byte = scale > 0 ? clamp(std::nearbyint(value / scale), -31, 31) : 0;
  return static_cast<uint8_t>(byte + 32);
}

}  // namespace neuronmm::ops
