#include "ops/scale_search.h"

#include <algorithm>
#include <cmath>
#include <cstring>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/scale_search.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#ifndef NEURONMM_OPS_SCALE_SEARCH_ONCE_
#define NEURONMM_OPS_SCALE_SEARCH_ONCE_
namespace neuronmm::ops {
namespace {

// The fixed-point form of the largest magnitude of a group.
constexpr int kOne = 32767;
// Finite values in fixed point: fixed[i] = round(value[i] / largest · kOne).
struct FixedValues {
  int64_t count = 0;
  float low = 0, high = 0, largest = 0;  // the least and the largest value, the largest magnitude
  HWY_ALIGN std::array<int16_t, kQuantGroup> fixed;
};

// The number of fixed-point units from one code to the next. The multiplier 1 is also tried for a
// group that the multiplier 4 covers, so that distances from the zero point reach 46 codes. They
// can be twice as large where the scale is below 2^-126 and has few digits. At 128 units per code,
// the sum of 32 such squared errors could need more than 31 bits.
constexpr int kCode = 64;
// Converts the code of the largest value to the factor by which MulFixedPoint15 has to multiply
// kOne to get that code in fixed point.
constexpr float kToFixed = kCode * 32768.0f / kOne;

// The number of grids that are tried on one group at a time, one per lane. Lane i lowers the
// multiplier that covers the group by kDown[i]. It moves the zero point that centres the range of
// the values by kShift[i] halves of a code. The first two multipliers get three zero points, the
// two lower ones get one. Measured: five multipliers with three zero points each lower the squared
// error by at most .02 %, on 2,000 rows each of normal, heavy-tailed, one-sided and uniform values.
constexpr size_t kTried = 8;
constexpr float kDown[kTried] = {0, 0, 0, 1, 1, 1, 2, 3};
constexpr float kShift[kTried] = {0, -1, 1, 0, -1, 1, 0, 0};

// The multipliers that the lanes try, and numbers that follow from them. kMultipliersBelow[i] is
// for a group that the multiplier i + 1 covers.
struct Multipliers {
  HWY_ALIGN float sc[kTried], half[kTried], per_sc[kTried], squared[kTried];
};
constexpr std::array<Multipliers, 16> kMultipliersBelow = [] {
  std::array<Multipliers, 16> all = {};
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t lane = 0; lane < kTried; ++lane) {
      const float sc = std::max(static_cast<float>(i + 1) - kDown[lane], 1.0f);
      all[i].sc[lane] = sc;
      all[i].half[lane] = sc / 2;
      all[i].per_sc[lane] = 1 / sc;
      all[i].squared[lane] = sc * sc;
    }
  }
  return all;
}();

}  // namespace
}  // namespace neuronmm::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace neuronmm::ops {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Every lane tries one grid, and all lanes see the same values. Codes are fixed-point numbers of 16
// bits, so that sums are exact and every instruction set finds the same grid.
using Floats = hn::CappedTag<float, kTried>;
using Vector = hn::Vec<Floats>;
using Words = hn::RebindToSigned<Floats>;
using WordVector = hn::Vec<Words>;
constexpr size_t kLanes = hn::MaxLanes(Floats()), kVectors = kTried / kLanes;

// Adding 1.5 · 2^23 rounds a small float to an integer. The lowest 16 bits of the sum's
// representation are then the lowest 16 bits of that integer.
constexpr float kWhole = 12582912.0f;
// Computes std::nearbyint(x) for |x| < 2^22.
HWY_INLINE Vector nearest(Vector x) {
  const Vector whole = hn::Set(Floats(), kWhole);
  return hn::Sub(hn::Add(x, whole), whole);
}
HWY_INLINE Vector clamp(Vector x, float low, float high) {
  const Floats d;
  return hn::Min(hn::Max(x, hn::Set(d, low)), hn::Set(d, high));
}

void fix_values(const float* values, int64_t count, FixedValues* to) {
  const Floats d;
  HWY_ALIGN float padded[kQuantGroup];
  std::fill(std::copy_n(values, count, padded), padded + hwy::RoundUpTo(count, kLanes), values[0]);
  Vector low = hn::Set(d, values[0]), high = low;
  for (int64_t i = 0; i < count; i += kLanes) {
    low = hn::Min(low, hn::Load(d, padded + i));
    high = hn::Max(high, hn::Load(d, padded + i));
  }
  to->count = count;
  to->low = hn::GetLane(hn::MinOfLanes(d, low));
  to->high = hn::GetLane(hn::MaxOfLanes(d, high));
  to->largest = std::max(to->high, -to->low);
  const Vector largest = hn::Set(d, to->largest > 0 ? to->largest : 1);
  for (int64_t i = 0; i < count; i += kLanes) {
    const Vector of_one = hn::Mul(hn::Div(hn::Load(d, padded + i), largest), hn::Set(d, kOne));
    const hn::Rebind<int16_t, Words> halves;
    hn::StoreU(hn::DemoteTo(halves, hn::ConvertTo(Words(), nearest(of_one))), halves,
               to->fixed.data() + i);
  }
}

// A vector of grids that are tried. The factors to_code turn kOne, the largest value, into its code
// times kCode. The zero points in `zero` are also times kCode. Each error is the sum over all
// values of (code - nearest allowed code)², times kCode².
struct Tried {
  // The compiler would generate a constructor for any CPU of the architecture, which NEON's vector
  // types do not allow.
  HWY_INLINE Tried() {}
  Vector to_code, zero, error;
};

#if HWY_TARGET != HWY_SCALAR
using Pairs = hn::Repartition<int16_t, Words>;
using PairVector = hn::Vec<Pairs>;

// Returns x, rounded to an integer, in both 16-bit halves of each word.
HWY_INLINE PairVector twice(Vector x) {
  const WordVector words = hn::BitCast(Words(), hn::Add(x, hn::Set(Floats(), kWhole)));
  const WordVector low = hn::And(words, hn::Set(Words(), 0xFFFF));
  return hn::BitCast(Pairs(), hn::Or(low, hn::ShiftLeft<16>(words)));
}

// Computes the errors of all values on the grids in `tried`, with codes in low ... high. Codes are
// shifted by `up`, so that the values that round to the highest code end where 16-bit additions
// saturate. Saturation thus clamps all larger values to the highest code.
template <size_t N>
HWY_INLINE void add_up_errors(const FixedValues& values, int low, int high, Tried (&tried)[N]) {
  const Pairs d;
  const Words words;
  const auto constant = [&](int x) HWY_ATTR { return hn::Set(d, static_cast<int16_t>(x)); };
  const int up = INT16_MAX + 1 - (high + 1) * kCode;
  const PairVector half = constant(kCode / 2), whole = constant(-kCode);
  const PairVector lowest = constant(low * kCode + up);
  PairVector to_code[N], zero[N], zero_and_half[N];
  WordVector even[N], odd[N];
  for (size_t n = 0; n < N; ++n) {
    to_code[n] = twice(tried[n].to_code);
    zero[n] = hn::Add(twice(tried[n].zero), constant(up));
    zero_and_half[n] = hn::Add(zero[n], half);
    even[n] = odd[n] = hn::Zero(words);
  }
  const auto add = [&](int64_t first, WordVector mask) HWY_ATTR {
    int32_t two_values = 0;
    std::memcpy(&two_values, values.fixed.data() + first, sizeof two_values);
    const PairVector value = hn::BitCast(d, hn::Set(words, two_values));
    for (size_t n = 0; n < N; ++n) {
      const PairVector scaled = hn::MulFixedPoint15(value, to_code[n]);
      const PairVector code = hn::Add(scaled, zero[n]);  // may wrap; `off` then wraps back
      const PairVector cut = hn::Max(hn::SaturatedAdd(scaled, zero_and_half[n]), lowest);
      const PairVector off = hn::And(hn::Sub(code, hn::And(cut, whole)), hn::BitCast(d, mask));
      even[n] = hn::ReorderWidenMulAccumulate(words, off, off, even[n], odd[n]);
    }
  };
  const int64_t even_count = values.count / 2 * 2;
  for (int64_t i = 0; i < even_count; i += 2) add(i, hn::Set(words, -1));
  if (even_count < values.count) add(even_count, hn::Set(words, 0xFFFF));
  for (size_t n = 0; n < N; ++n) {
    tried[n].error = hn::ConvertTo(Floats(), hn::RearrangeToOddPlusEven(even[n], odd[n]));
  }
}
#else
template <size_t N>
HWY_INLINE void add_up_errors(const FixedValues& values, int low, int high, Tried (&tried)[N]) {
  for (Tried& of : tried) {
    const auto to_code = static_cast<int>(hn::GetLane(nearest(of.to_code)));
    const auto zero = static_cast<int>(hn::GetLane(nearest(of.zero)));
    int error = 0;
    for (int64_t i = 0; i < values.count; ++i) {
      const int code = ((values.fixed[i] * to_code + (1 << 14)) >> 15) + zero;
      const int off = code - std::clamp((code + kCode / 2) & -kCode, low * kCode, high * kCode);
      error += off * off;
    }
    of.error = hn::Set(Floats(), static_cast<float>(error));
  }
}
#endif

// Computes the squared errors of the values, in units of largest², for codes in -largest_code ...
// largest_code and kTried scales. The i-th scale gives the largest value the code
// code_of_largest[i], before rounding.
void symmetric_errors(const FixedValues& values, int largest_code, const float* code_of_largest,
                      float* errors) {
  const Floats d;
  Tried tried[kVectors];
  for (size_t v = 0; v < kVectors; ++v) {
    tried[v].to_code = hn::Mul(hn::LoadU(d, code_of_largest + v * kLanes), hn::Set(d, kToFixed));
    tried[v].zero = hn::Zero(d);
  }
  add_up_errors(values, -largest_code, largest_code, tried);
  for (size_t v = 0; v < kVectors; ++v) {
    const Vector squared = hn::Mul(tried[v].to_code, tried[v].to_code);
    hn::StoreU(hn::Div(tried[v].error, squared), d, errors + v * kLanes);
  }
}

// Computes q = clamp(nearest(value / step + zero), low, high) + offset.
void nearest_codes(const float* values, int64_t count, float step, float zero, float low,
                   float high, float offset, uint8_t* q) {
  const Floats d;
  const hn::Rebind<uint8_t, Words> bytes;
  const auto round = [&](const float* from, uint8_t* to) HWY_ATTR {
    const Vector code = hn::Add(hn::Div(hn::LoadU(d, from), hn::Set(d, step)), hn::Set(d, zero));
    const Vector whole = hn::Add(nearest(clamp(code, low, high)), hn::Set(d, offset));
    hn::StoreU(hn::DemoteTo(bytes, hn::ConvertTo(Words(), whole)), bytes, to);
  };
  int64_t i = 0;
  for (; i + static_cast<int64_t>(kLanes) <= count; i += kLanes) round(values + i, q + i);
  if (i == count) return;
  float from[kLanes] = {};
  uint8_t to[kLanes];
  std::copy(values + i, values + count, from);
  round(from, to);
  std::copy_n(to, count - i, q + i);
}

// The grids that are tried on one group: multipliers, zero points, and whether all bytes of the
// grid lie within ±127.
struct Grids {
  HWY_INLINE Grids() {}
  const Multipliers* multipliers;
  Vector zz[kVectors];
  hn::Mask<Floats> fit[kVectors];
};

HWY_INLINE Grids make_grids(const FixedValues& values, float step, float per_scale, Tried* tried) {
  const Floats d;
  const float covering = std::clamp(std::ceil(step * per_scale), 1.0f, 16.0f);
  Grids grids;
  grids.multipliers = &kMultipliersBelow[static_cast<size_t>(covering) - 1];
  const Multipliers& m = *grids.multipliers;
  const Vector largest_code = hn::Set(d, values.largest * per_scale * kToFixed);
  const Vector low_plus_high = hn::Set(d, values.low * per_scale + values.high * per_scale);
  for (size_t v = 0; v < kVectors; ++v) {
    const Vector per_sc = hn::Load(d, m.per_sc + v * kLanes);
    const Vector middle = hn::Sub(hn::Set(d, 15.0f), hn::Mul(low_plus_high, per_sc));
    const Vector shift = hn::LoadU(d, kShift + v * kLanes);
    grids.zz[v] = clamp(hn::Add(nearest(clamp(middle, 8, 23)), shift), 8, 23);
    const Vector bytes = hn::Floor(hn::Mul(hn::Load(d, m.half + v * kLanes), grids.zz[v]));
    const Vector top = hn::Sub(hn::Mul(hn::Load(d, m.sc + v * kLanes), hn::Set(d, 15.0f)), bytes);
    grids.fit[v] = hn::Le(hn::Max(bytes, top), hn::Set(d, 127.0f));
    tried[v].to_code = hn::Mul(per_sc, largest_code);
    tried[v].zero = hn::Mul(hn::Mul(bytes, per_sc), hn::Set(d, float{kCode}));
  }
  return grids;
}

// Returns the least squared error of the grids whose bytes fit, in units of (scale / kCode)², and
// sets *best to the multiplier and zero point that have it.
HWY_INLINE float best_of(const Grids& grids, const Tried* tried, GroupOf4Bits* best) {
  const Floats d;
  Vector error[kVectors], least = hn::Set(d, INFINITY);
  for (size_t v = 0; v < kVectors; ++v) {
    const Vector squared = hn::Load(d, grids.multipliers->squared + v * kLanes);
    error[v] = hn::IfThenElse(grids.fit[v], hn::Mul(tried[v].error, squared), hn::Set(d, INFINITY));
    least = hn::Min(least, error[v]);
  }
  least = hn::MinOfLanes(d, least);
  for (size_t v = 0; v < kVectors; ++v) {
    const intptr_t lane = hn::FindFirstTrue(d, hn::Eq(error[v], least));
    if (lane < 0) continue;
    float halves[kLanes];
    hn::StoreU(grids.zz[v], d, halves);
    *best = {static_cast<int>(grids.multipliers->sc[v * kLanes + static_cast<size_t>(lane)]),
             static_cast<int>(halves[lane])};
    break;
  }
  return hn::GetLane(least);
}

// Finds the best grid of every group for each of two scales, and adds up their squared errors in
// units of (unit / kCode)². steps[g] is the step that covers group g. Stops early if both errors
// have reached `limit`. Two scales are tried together to hide the latencies of instructions.
void best_groups(const FixedValues* groups, const float* steps, int64_t count,
                 const float (&scales)[2], float unit, float limit, GridOf4Bits (&best)[2],
                 float (&errors)[2]) {
  const float in_units[2] = {scales[0] / unit, scales[1] / unit};
  errors[0] = errors[1] = 0;
  for (int64_t g = 0; g < count && std::min(errors[0], errors[1]) < limit; ++g) {
    Tried tried[2 * kVectors];
    const Grids first = make_grids(groups[g], steps[g], 1 / scales[0], tried);
    const Grids second = make_grids(groups[g], steps[g], 1 / scales[1], tried + kVectors);
    add_up_errors(groups[g], 0, 15, tried);
    const auto at = static_cast<size_t>(g);
    errors[0] += best_of(first, tried, &best[0].groups[at]) * in_units[0] * in_units[0];
    errors[1] += best_of(second, tried + kVectors, &best[1].groups[at]) * in_units[1] * in_units[1];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuronmm::ops {
namespace {

HWY_EXPORT(symmetric_errors);
HWY_EXPORT(best_groups);
HWY_EXPORT(fix_values);
HWY_EXPORT(nearest_codes);

// A grid for groups of zeros. Its zero point, 4, is a whole code, which therefore has the byte 0.
constexpr GroupOf4Bits kZeros = {1, 8};

// Returns the smallest step with which codes 0 ... 15 cover the values, for any zero point in 4 ...
// 11.5. The step is finite even if high - low overflows.
float covering_step(const FixedValues& of) {
  return std::max<float>({of.high / 15 - of.low / 15, of.high / 11, -of.low / 11.5f});
}

bf16 rounded(float scale) { return bf16::from_float(scale); }

}  // namespace

// Tries scales at which the widest group needs a multiplier of 9 to 17. With a larger multiplier
// the other groups can choose theirs more finely, but bytes exceed ±127 sooner. Measured on the
// rows of kTried: ten multipliers from 6 on have a squared error that is 1 % larger. With five
// multipliers it is 2.7 % larger. SmolLM2, off its grid, has a KL of .214 with these twelve, .215
// with ten and .228 with five.
GridOf4Bits grid_of_4bits(const float* values, int64_t count, int64_t group) {
  constexpr std::array kMultipliers = {9.0f,  9.7f,  10.5f, 11.2f, 11.9f, 12.6f,
                                       13.4f, 14.1f, 14.8f, 15.5f, 16.3f, 17.0f};
  std::array<FixedValues, kQuantGroup / 16> groups;
  std::array<float, kQuantGroup / 16> steps;
  float widest = 0;
  size_t used = 0;
  for (int64_t first = 0; first < count; first += group, ++used) {
    HWY_DYNAMIC_DISPATCH(fix_values)
    (values + first, std::min(group, count - first), &groups[used]);
    steps[used] = covering_step(groups[used]);
    widest = std::max(widest, steps[used]);
  }
  GridOf4Bits best = {bf16::from_float(0), {}};
  best.groups.fill(kZeros);
  float least = INFINITY;
  for (size_t i = 0; i < kMultipliers.size(); i += 2) {
    GridOf4Bits grids[2] = {best, best};
    float scales[2], errors[2];
    for (size_t j = 0; j < 2; ++j) {
      grids[j].scale = rounded(widest / kMultipliers[i + j]);
      scales[j] = grids[j].scale.to_float();
    }
    if (!std::isfinite(1 / scales[1])) break;  // the values are 0, or the scale is below 2^-128
    HWY_DYNAMIC_DISPATCH(best_groups)
    (groups.data(), steps.data(), static_cast<int64_t>(used), scales, widest, least, grids, errors);
    const size_t better = errors[1] < errors[0] ? 1 : 0;
    if (errors[better] >= least) continue;
    least = errors[better];
    best = grids[better];
  }
  return best;
}

void codes_of_4bits(const float* values, int64_t count, float scale, GroupOf4Bits group,
                    uint8_t* q) {
  if (!(scale > 0)) {
    std::fill_n(q, count, static_cast<uint8_t>(group.zero() / group.multiplier));
    return;
  }
  const float zero = static_cast<float>(group.zero()) / static_cast<float>(group.multiplier);
  HWY_DYNAMIC_DISPATCH(nearest_codes)
  (values, count, scale * static_cast<float>(group.multiplier), zero, 0, 15, 0, q);
}

// Tries 48 scales in equal steps, from 1.2 down to 0.6125 times the scale that covers the values.
bf16 scale_of_6bits(const float* values, int64_t count) {
  FixedValues fixed;
  HWY_DYNAMIC_DISPATCH(fix_values)(values, count, &fixed);
  const float covering = fixed.largest / 31;
  bf16 best = rounded(covering);
  float least = INFINITY;
  for (size_t first = 0; first < 6 * kTried; first += kTried) {
    std::array<bf16, kTried> scales;
    std::array<float, kTried> code_of_largest, errors;
    for (size_t i = 0; i < scales.size(); ++i) {
      const auto step = static_cast<float>(first + i);
      scales[i] = rounded(covering * (1.2f - 0.0125f * step));
      code_of_largest[i] = fixed.largest / scales[i].to_float();
    }
    if (!(scales.back().to_float() > 0)) break;
    HWY_DYNAMIC_DISPATCH(symmetric_errors)(fixed, 31, code_of_largest.data(), errors.data());
    const auto found = std::ranges::min_element(errors);
    if (*found >= least) continue;
    least = *found;
    best = scales[static_cast<size_t>(found - errors.begin())];
  }
  return best;
}

void codes_of_6bits(const float* values, int64_t count, float scale, uint8_t* q) {
  if (!(scale > 0)) {
    std::fill_n(q, count, uint8_t{32});
    return;
  }
  HWY_DYNAMIC_DISPATCH(nearest_codes)(values, count, scale, 0, -31, 31, 32, q);
}

}  // namespace neuronmm::ops
#endif  // HWY_ONCE
