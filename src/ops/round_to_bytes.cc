#include "ops/round_to_bytes.h"

#include <algorithm>
#include <cmath>

#include "ops/weights.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/round_to_bytes.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace neuronmm::ops {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
using Words = hn::RebindToSigned<Floats>;

// Returns max |value|, or NaN if a value is NaN or infinite. `count` is a multiple of the lanes.
float largest_magnitude(const float* values, int64_t count) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto largest = hn::Zero(d), not_finite = hn::Zero(d);
  for (int64_t i = 0; i < count; i += lanes) {
    const auto value = hn::LoadU(d, values + i);
    largest = hn::Max(largest, hn::Abs(value));
    not_finite = hn::Add(not_finite, hn::Mul(value, hn::Zero(d)));
  }
  return hn::GetLane(hn::MaxOfLanes(d, largest)) + hn::GetLane(hn::SumOfLanes(d, not_finite));
}

// Writes the bytes for a scale above 0. `count` is a multiple of the lanes.
void nearest_bytes(const float* values, int64_t count, float scale, int8_t* bytes) {
  const Floats d;
  const hn::Rebind<int8_t, Words> to_bytes;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto step = hn::Set(d, scale), half = hn::Set(d, scale / 2), one = hn::Set(d, 1.0f);
  const auto inverse = hn::Set(d, 1.0f / scale), largest = hn::Set(d, 127.0f);
  for (int64_t i = 0; i < count; i += lanes) {
    const auto value = hn::LoadU(d, values + i);
    // The product is not quite the quotient. The rest after the byte nearest to it is exact,
    // because byte * step has 15 bits. If it is less than half a step, no other byte is as near.
    auto byte = hn::Round(hn::Mul(value, inverse));
    const auto rest_of_product = hn::Sub(value, hn::Mul(byte, step));
    if (!hn::AllTrue(d, hn::Lt(hn::Abs(rest_of_product), half))) {
      // The quotient finds ties. It is rounded, so it may be a tie where the exact one is not, and
      // the rest shows which byte is nearer. The inverse of a tiny scale is infinite, too.
      byte = hn::Round(hn::Div(value, step));
      const auto rest = hn::Sub(value, hn::Mul(byte, step));
      const auto up = hn::IfThenElseZero(hn::Gt(rest, half), one);
      const auto down = hn::IfThenElseZero(hn::Lt(rest, hn::Neg(half)), one);
      byte = hn::Sub(hn::Add(byte, up), down);
    }
    const auto nearest = hn::Min(hn::Max(byte, hn::Neg(largest)), largest);
    hn::StoreU(hn::DemoteTo(to_bytes, hn::ConvertTo(Words(), nearest)), to_bytes, bytes + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuronmm::ops {
namespace {

HWY_EXPORT(largest_magnitude);
HWY_EXPORT(nearest_bytes);

// A multiple of the lanes of every instruction set.
constexpr int64_t kPadding = 16;

}  // namespace

bf16 round_to_bytes(const float* values, int64_t count, int8_t* bytes) {
  constexpr float kLargest = 127.0f;
  float padded[kQuantGroup];
  int8_t padded_bytes[kQuantGroup];
  const bool whole = count % kPadding == 0;
  const int64_t size = (count + kPadding - 1) / kPadding * kPadding;
  if (!whole) std::fill(std::copy_n(values, count, padded), padded + size, 0.0f);
  const float* const from = whole ? values : padded;
  const float largest = HWY_DYNAMIC_DISPATCH(largest_magnitude)(from, size);
  const bf16 scale = bf16::from_float(largest / kLargest);
  if (!(scale.to_float() > 0)) {  // also if it is NaN
    std::fill_n(bytes, count, int8_t{0});
    return scale;
  }
  HWY_DYNAMIC_DISPATCH(nearest_bytes)
  (from, size, scale.to_float(), whole ? bytes : padded_bytes);
  if (!whole) std::copy_n(padded_bytes, count, bytes);
  return scale;
}

}  // namespace neuronmm::ops
#endif  // HWY_ONCE
