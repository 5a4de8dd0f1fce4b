#include "ops/scale_search.h"

#include <algorithm>
#include <cmath>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/scale_search.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace neuronmm::ops {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Grids are tried on the same values side by side, each in a lane: then sums need no order but that
// of the values, and every instruction set finds the same (products and sums are rounded one by
// one, see CMakeLists.txt).
constexpr size_t kTried = 16;
using Floats = hn::CappedTag<float, kTried>;
using Vector = hn::Vec<Floats>;
constexpr size_t kLanes = hn::MaxLanes(Floats()), kVectors = kTried / kLanes;

// std::nearbyint for |x| < 2^22.
HWY_INLINE Vector nearest(Vector x) {
  const Vector magic = hn::Set(Floats(), 12582912.0f);  // 1.5 · 2^23
  return hn::Sub(hn::Add(x, magic), magic);
}
HWY_INLINE Vector clamp(Vector x, float low, float high) {
  const Floats d;
  return hn::Min(hn::Max(x, hn::Set(d, low)), hn::Set(d, high));
}

// error[lane] = sum over values of (code - the nearest of low ... high)^2, where a code is value ·
// to_code + zero.
HWY_INLINE void add_up_errors(const float* values, int64_t count, float low, float high,
                              const Vector (&to_code)[kVectors], const Vector (&zero)[kVectors],
                              Vector (&error)[kVectors]) {
  const Floats d;
  for (Vector& e : error) e = hn::Zero(d);
  for (int64_t i = 0; i < count; ++i) {
    const Vector value = hn::Set(d, values[i]);
    for (size_t v = 0; v < kVectors; ++v) {
      const Vector code = hn::Add(hn::Mul(value, to_code[v]), zero[v]);
      const Vector off = hn::Sub(code, clamp(nearest(code), low, high));
      error[v] = hn::Add(error[v], hn::Mul(off, off));
    }
  }
}

// The squared errors of symmetric codes up to `largest` in kTried scales.
void symmetric_errors(const float* values, int64_t count, float largest, const float* to_code,
                      float* errors) {
  const Floats d;
  Vector factors[kVectors], zero[kVectors], error[kVectors];
  for (size_t v = 0; v < kVectors; ++v) {
    factors[v] = hn::LoadU(d, to_code + v * kLanes);
    zero[v] = hn::Zero(d);
  }
  add_up_errors(values, count, -largest, largest, factors, zero, error);
  for (size_t v = 0; v < kVectors; ++v) {
    const Vector squared = hn::Mul(factors[v], factors[v]);
    hn::StoreU(hn::Div(error[v], squared), d, errors + v * kLanes);
  }
}

// Five multipliers from `covering` down, each with the three zero points around the one that puts
// the range (`low_plus_high` in scales) in the middle of the codes.
float best_group(const float* values, int64_t count, float scale, float covering,
                 float low_plus_high, GroupOf4Bits* best) {
  const Floats d;
  const Vector one = hn::Set(d, 1.0f);
  const Vector to_scales = hn::Set(d, 1 / scale);
  Vector sc[kVectors], zz[kVectors], to_code[kVectors], zero[kVectors], error[kVectors];
  hn::Mask<Floats> fits[kVectors];
  for (size_t v = 0; v < kVectors; ++v) {
    const Vector lane = hn::Iota(d, static_cast<float>(v * kLanes));
    const Vector down = hn::Floor(hn::Mul(lane, hn::Set(d, 0.34f)));
    sc[v] = hn::Max(hn::Sub(hn::Set(d, covering), down), one);
    const Vector per_sc = hn::Div(one, sc[v]);
    const Vector middle = hn::Sub(hn::Set(d, 15.0f), hn::Mul(hn::Set(d, low_plus_high), per_sc));
    const Vector shift = hn::Sub(hn::Sub(lane, one), hn::Mul(down, hn::Set(d, 3.0f)));
    zz[v] = clamp(hn::Add(nearest(clamp(middle, 8, 23)), shift), 8, 23);
    const Vector bytes = hn::Floor(hn::Mul(hn::Mul(sc[v], zz[v]), hn::Set(d, 0.5f)));
    const Vector top = hn::Sub(hn::Mul(sc[v], hn::Set(d, 15.0f)), bytes);
    fits[v] = hn::Le(hn::Max(bytes, top), hn::Set(d, 127.0f));
    to_code[v] = hn::Mul(per_sc, to_scales);
    zero[v] = hn::Mul(bytes, per_sc);
  }
  add_up_errors(values, count, 0, 15, to_code, zero, error);
  Vector least = hn::Set(d, INFINITY);
  for (size_t v = 0; v < kVectors; ++v) {
    const Vector in_scales = hn::Mul(error[v], hn::Mul(sc[v], sc[v]));
    error[v] = hn::IfThenElse(fits[v], in_scales, hn::Set(d, INFINITY));
    least = hn::Min(least, error[v]);
  }
  least = hn::MinOfLanes(d, least);
  for (size_t v = 0; v < kVectors; ++v) {
    const intptr_t lane = hn::FindFirstTrue(d, hn::Eq(error[v], least));
    if (lane < 0) continue;
    float multipliers[kLanes], halves[kLanes];
    hn::StoreU(sc[v], d, multipliers);
    hn::StoreU(zz[v], d, halves);
    *best = {static_cast<int>(multipliers[lane]), static_cast<int>(halves[lane])};
    break;
  }
  return hn::GetLane(least) * scale * scale;
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuronmm::ops {
namespace {

HWY_EXPORT(symmetric_errors);
HWY_EXPORT(best_group);

constexpr int64_t kTriedScales = 16;  // kTried of every instruction set

// A zero point that gives the byte 0 to one of the codes: 4, with a multiplier of 1.
constexpr GroupOf4Bits kZeros = {1, 8};

struct Range {
  float low = 0, high = 0;
};
Range range_of(const float* values, int64_t count) {
  Range range = {values[0], values[0]};
  for (int64_t i = 1; i < count; ++i) {
    range = {std::min(range.low, values[i]), std::max(range.high, values[i])};
  }
  return range;
}

// q = nearest(value / step + zero), within the codes, + offset.
void nearest_codes(const float* values, int64_t count, float step, float zero, Range codes,
                   int offset, uint8_t* q) {
  constexpr float kMagic = 12582912.0f;  // 1.5 · 2^23: what is added to it loses its fraction
  for (int64_t i = 0; i < count; ++i) {
    const float code = std::min(std::max(values[i] / step + zero, codes.low), codes.high);
    q[i] = static_cast<uint8_t>(static_cast<int>((code + kMagic) - kMagic) + offset);
  }
}

// The step that covers a range with codes 0 ... 15 and a zero point of 4 ... 11.5.
float covering_step(Range range) {
  return std::max({(range.high - range.low) / 15, range.high / 11, -range.low / 11.5f});
}

bf16 rounded(float scale) { return bf16::from_float(scale); }

}  // namespace

// The widest group gets a multiplier of about 6 to 16: the more, the finer can the others choose,
// and the sooner are bytes beyond ±127. Half as many take half as long, and the KL of SmolLM2 off
// its grid goes from .215 to .228 (24 windows of WikiText-2).
GridOf4Bits grid_of_4bits(const float* values, int64_t count, int64_t group) {
  constexpr std::array kMultipliers = {6.0f,  7.0f,  8.0f,  9.0f,  10.0f,
                                       11.0f, 12.0f, 13.5f, 15.0f, 16.5f};
  std::array<Range, kQuantGroup / 16> ranges;
  float widest = 0;
  for (int64_t first = 0; first < count; first += group) {
    Range& range = ranges[static_cast<size_t>(first / group)];
    range = range_of(values + first, std::min(group, count - first));
    widest = std::max(widest, covering_step(range));
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
    for (int64_t first = 0; first < count && error < least; first += group) {
      const auto g = static_cast<size_t>(first / group);
      const float covering = std::ceil(covering_step(ranges[g]) / scale);
      error += HWY_DYNAMIC_DISPATCH(best_group)(
          values + first, std::min(group, count - first), scale, std::clamp(covering, 1.0f, 16.0f),
          (ranges[g].low + ranges[g].high) / scale, &grid.groups[g]);
    }
    if (error >= least) continue;
    least = error;
    best = grid;
  }
  return best;
}

void codes_of_4bits(const float* values, int64_t count, float scale, GroupOf4Bits group,
                    uint8_t* q) {
  if (!(scale > 0)) {
    std::fill_n(q, count, static_cast<uint8_t>(group.zero() / group.sc));
    return;
  }
  const float zero = static_cast<float>(group.zero()) / static_cast<float>(group.sc);
  nearest_codes(values, count, scale * static_cast<float>(group.sc), zero, {0, 15}, 0, q);
}

// Tried are 1.2, 1.1875, ... 0.6125 of what covers the values.
bf16 scale_of_6bits(const float* values, int64_t count) {
  const Range range = range_of(values, count);
  const float covering = std::max(std::abs(range.low), std::abs(range.high)) / 31;
  bf16 best = rounded(covering);
  float least = INFINITY;
  for (int64_t first = 0; first < 3 * kTriedScales; first += kTriedScales) {
    std::array<bf16, kTriedScales> scales;
    std::array<float, kTriedScales> to_code, errors;
    for (size_t i = 0; i < scales.size(); ++i) {
      const auto step = static_cast<float>(static_cast<size_t>(first) + i);
      scales[i] = rounded(covering * (1.2f - 0.0125f * step));
      to_code[i] = 1 / scales[i].to_float();
    }
    if (!(scales.back().to_float() > 0)) break;
    HWY_DYNAMIC_DISPATCH(symmetric_errors)(values, count, 31, to_code.data(), errors.data());
    const auto found = std::ranges::min_element(errors);
    if (*found >= least) continue;
    least = *found;
    best = scales[static_cast<size_t>(found - errors.begin())];
  }
  return best;
}

void codes_of_6bits(const float* values, int64_t count, float scale, uint8_t* q) {
  if (scale > 0) return nearest_codes(values, count, scale, 0, {-31, 31}, 32, q);
  std::fill_n(q, count, uint8_t{32});
}

}  // namespace neuronmm::ops
#endif  // HWY_ONCE
