#include "ops/log_sum.h"

// The order matters: foreach_target.h compiles this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/log_sum.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "hwy/contrib/math/math-inl.h"
// clang-format on

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>

#include "base/pieces.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::ops {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

float largest_of(std::span<const float> values) {
  const hn::ScalableTag<float> d;
  auto largest = hn::Set(d, -std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + hn::Lanes(d) <= values.size(); i += hn::Lanes(d)) {
    largest = hn::Max(largest, hn::LoadU(d, &values[i]));
  }
  float result = hn::GetLane(hn::MaxOfLanes(d, largest));
  for (; i < values.size(); ++i) result = std::max(result, values[i]);
  return result;
}

// Returns the sum of exp(value - origin), or NaN if a value is NaN.
double sum_of_exponentials(std::span<const float> values, float origin) {
  const hn::ScalableTag<double> wide;
  const hn::Rebind<float, decltype(wide)> d;
  const auto below_smallest = hn::Set(d, -105.0f);  // Highway's exp gives 0 below -104
  auto sums = hn::Zero(wide);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= values.size(); i += hn::Lanes(d)) {
    const auto x = hn::Sub(hn::LoadU(d, &values[i]), hn::Set(d, origin));
    // Highway's exp gets neither NaN nor infinity. NaN is put back afterwards.
    const auto is_nan = hn::IsNaN(x);
    const auto finite = hn::Max(hn::IfThenZeroElse(is_nan, x), below_smallest);
    const auto exponential = hn::IfThenElse(is_nan, x, hn::Exp(d, finite));
    sums = hn::Add(sums, hn::PromoteTo(wide, exponential));
  }
  double sum = hn::GetLane(hn::SumOfLanes(wide, sums));
  for (; i < values.size(); ++i) sum += std::exp(values[i] - origin);
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuronmm::ops {
namespace {

constexpr int64_t kPanel = 32, kMostBlocks = 128;
// The work of a float and of its exponential in a vector (base/pieces.h). Assumed.
constexpr int64_t kFloatWork = 4, kExponentialWork = 50;

HWY_EXPORT(largest_of);
HWY_EXPORT(sum_of_exponentials);

}  // namespace

int64_t log_sum_block(int64_t width) {
  constexpr int64_t kStep = kPanel * kMostBlocks;
  return std::max<int64_t>(1, (width + kStep - 1) / kStep) * kPanel;
}

float largest_of(std::span<const float> values) { return HWY_DYNAMIC_DISPATCH(largest_of)(values); }

// A value is infinite or NaN if all bits of its exponent are set. The loop has no early exit, so
// that compilers can vectorize it.
bool all_finite(std::span<const float> values) {
  constexpr uint32_t kExponent = 0x7F800000;
  std::atomic<bool> finite = true;
  for_each_piece(std::ssize(values), kFloatWork, [&](int64_t first, int64_t last) {
    uint32_t any = 0;
    for (int64_t i = first; i < last; ++i) {
      const auto bits = std::bit_cast<uint32_t>(values[static_cast<size_t>(i)]);
      any |= (bits & kExponent) == kExponent ? 1 : 0;
    }
    if (any != 0) finite.store(false, std::memory_order_relaxed);
  });
  return finite;
}

// A block in which every value is -infinity adds nothing to the sum. A block that also has NaN adds
// NaN.
std::vector<ExponentialSum> exponential_sums(std::span<const float> blocks, int64_t block) {
  const auto sum_of = [&](std::span<const float> part) {
    const float largest = largest_of(part);
    const bool impossible = largest == -std::numeric_limits<float>::infinity();
    return ExponentialSum{
        largest, HWY_DYNAMIC_DISPATCH(sum_of_exponentials)(part, impossible ? 0.0f : largest)};
  };
  const auto size = static_cast<size_t>(block);
  std::vector<ExponentialSum> sums((blocks.size() + size - 1) / size);
  for_each_piece(std::ssize(sums), block * kExponentialWork, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      sums[i] = sum_of(blocks.subspan(i * size, std::min(size, blocks.size() - i * size)));
    }
  });
  return sums;
}

LogSum log_sum(std::span<const ExponentialSum> blocks) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0.0;
  for (const ExponentialSum& block : blocks) largest = std::max(largest, double{block.largest});
  for (const ExponentialSum& block : blocks) sum += block.sum * std::exp(block.largest - largest);
  return {largest, std::log(sum)};
}

LogSum log_sum(std::span<const float> row) {
  return log_sum(exponential_sums(row, log_sum_block(std::ssize(row))));
}

}  // namespace neuronmm::ops
#endif  // HWY_ONCE
