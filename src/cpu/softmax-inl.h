// The softmax of attention, block by block of positions, for one instruction set (see kernels.h,
// attention-inl.h). Highway includes this file once per target.
//
// A row of scores s becomes p = 2^(c (s - m)), where m is the largest score so far and c holds
// log2(e) / sqrt(head_dim), or log2(e) times another scale of the model. If a block brings a larger
// m, the row's sums are scaled once. Source: Milakov and Gimelshein, Online normalizer calculation
// for softmax, 2018 (arXiv 1805.02867).

#if defined(NEURONMM_CPU_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_SOFTMAX_INL_H_
#undef NEURONMM_CPU_SOFTMAX_INL_H_
#else
#define NEURONMM_CPU_SOFTMAX_INL_H_
#endif

#include <limits>

#include "cpu/matmul-inl.h"
#include "cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The visible positions [first, last) of one row of scores, relative to the block.
struct VisibleRange {
  int64_t first, last;
};

// The sums of one row so far.
struct RowSums {
  float& max;
  float* sum;       // kSumLanes partial sums
  float* weighted;  // `features` of them, a whole number of panels
  int64_t features;

  HWY_INLINE void scale(Vector factor) const {
    for (int64_t i = 0; i < kSumLanes; i += kLanes) multiply_at(sum + i, factor);
    for (int64_t i = 0; i < features; i += kLanes) multiply_at(weighted + i, factor);
  }

 private:
  static HWY_INLINE void multiply_at(float* at, Vector factor) {
    hn::StoreU(hn::Mul(hn::LoadU(Floats(), at), factor), Floats(), at);
  }
};

// Scales of the positions of a block, of keys and of values, or nothing.
struct PositionScales {
  const float* keys = nullptr;
  const float* values = nullptr;
};

// Reads the scores of a row. Positions that the row does not see count as -infinity, unless it sees
// all of them (kWhole). With kScaled, scores are multiplied by the scales of the keys.
template <bool kWhole, bool kScaled>
struct VisibleScores {
  const float* scores;
  VisibleRange visible;
  PositionScales scales;

  HWY_INLINE auto seen(int64_t i) const {
    const Words words;
    const auto position = hn::Iota(words, static_cast<int32_t>(i));
    const auto before_first = hn::Set(words, static_cast<int32_t>(visible.first - 1));
    const auto end = hn::Set(words, static_cast<int32_t>(visible.last));
    return hn::RebindMask(Floats(), hn::And(hn::Gt(position, before_first), hn::Gt(end, position)));
  }
  HWY_INLINE Vector load(int64_t i) const {
    Vector score = hn::LoadU(Floats(), scores + i);
    if constexpr (kScaled) score = hn::Mul(score, hn::LoadU(Floats(), scales.keys + i));
    if constexpr (kWhole) return score;
    return hn::IfThenElse(seen(i), score, hn::Set(Floats(), kMinusInfinity));
  }
  HWY_INLINE Vector zero_unseen(int64_t i, Vector p) const {
    if constexpr (kWhole) return p;
    return hn::IfThenElseZero(seen(i), p);
  }
  // Returns what multiplies the values: the power, times the value's scale.
  HWY_INLINE Vector weight(int64_t i, Vector p) const {
    if constexpr (!kScaled) return p;
    return hn::Mul(p, hn::LoadU(Floats(), scales.values + i));
  }
};

// Brings the row's sums to the largest of its scores. NaN is never the largest.
template <class Scores>
HWY_INLINE void raise_max(const Scores& scores, int64_t count, float scale, const RowSums& row) {
  const Floats d;
  Vector largest = hn::Set(d, kMinusInfinity);
  for (int64_t i = 0; i < count; i += kLanes) largest = hn::Max(scores.load(i), largest);
  if (hn::AllFalse(d, hn::Gt(largest, hn::Set(d, row.max)))) return;
  const float max = hn::GetLane(hn::MaxOfLanes(d, largest));
  // Sums of nothing are zeros.
  if (row.max != kMinusInfinity) {
    row.scale(power_of_two<6>(hn::Set(d, (row.max - max) * scale)));
  }
  row.max = max;
}

// Calls store(i, p of position i on, p of the next positions), kLanes positions each, for all
// positions of the block, and adds them to the row's sum. What is stored has the scales of values.
template <int kDegree, class Scores, class Store>
HWY_INLINE void add_powers(const Scores& scores, int64_t count, float scale, const RowSums& row,
                           const Store& store) {
  const Floats d;
  const Vector c = hn::Set(d, scale), offset = hn::Set(d, -row.max * scale);
  constexpr int64_t kSums = kSumLanes / kLanes;
  Vector sums[kSums];
  for (int64_t i = 0; i < kSums; ++i) sums[i] = hn::LoadU(d, row.sum + i * kLanes);
  const auto power = [&](int64_t i) HWY_ATTR {
    return scores.zero_unseen(i, power_of_two<kDegree>(hn::MulAdd(scores.load(i), c, offset)));
  };
  for (int64_t i = 0; i < count; i += 2 * kLanes) {
    const Vector first = power(i), second = power(i + kLanes);
    const int64_t at = i / kLanes % kSums, next = (i / kLanes + 1) % kSums;
    sums[at] = hn::Add(sums[at], first);
    sums[next] = hn::Add(sums[next], second);
    store(i, scores.weight(i, first), scores.weight(i + kLanes, second));
  }
  for (int64_t i = 0; i < kSums; ++i) hn::StoreU(sums[i], d, row.sum + i * kLanes);
}

// Turns the scores of `count` positions into probabilities relative to the row's largest score. The
// count must be a multiple of kPanel.
template <int kDegree, bool kScaled, class Store>
HWY_INLINE void softmax_row(const float* scores, int64_t count, VisibleRange visible,
                            const PositionScales& scales, float scale, const RowSums& row,
                            const Store& store) {
  if (visible.first == 0 && visible.last == count) {
    const VisibleScores<true, kScaled> all = {scores, visible, scales};
    raise_max(all, count, scale, row);
    return add_powers<kDegree>(all, count, scale, row, store);
  }
  // A row that sees nothing of this block would subtract -infinity from -infinity.
  if (visible.first >= visible.last) {
    const Vector zero = hn::Zero(Floats());
    for (int64_t i = 0; i < count; i += 2 * kLanes) store(i, zero, zero);
    return;
  }
  const VisibleScores<false, kScaled> some = {scores, visible, scales};
  raise_max(some, count, scale, row);
  add_powers<kDegree>(some, count, scale, row, store);
}

// Adds the sums of later positions to those of earlier ones, for `rows` rows. Each side has its own
// largest scores a and b. With m the larger one, the result is 2^(c (a - m)) times the one and
// 2^(c (b - m)) times the other.
inline void add_attention(int64_t rows, int64_t features, float scale, const AttentionSums& from,
                          const AttentionSums& to) {
  const Floats d;
  for (int64_t r = 0; r < rows; ++r) {
    const RowSums row = {to.max[r], to.sum + r * kSumLanes, to.weighted + r * features, features};
    // The sums are zeros where nothing was seen.
    if (from.max[r] == kMinusInfinity && hn::GetLane(hn::LoadU(d, from.sum + r * kSumLanes)) == 0) {
      continue;
    }
    const float max = std::max(row.max, from.max[r]);
    const auto factor = [&](float of) HWY_ATTR {
      return power_of_two<6>(hn::Set(d, of == max ? 0.0f : (of - max) * scale));
    };
    const Vector keep = factor(row.max), add = factor(from.max[r]);
    const auto fold = [&](const float* other, float* own, int64_t count) HWY_ATTR {
      for (int64_t i = 0; i < count; i += kLanes) {
        const Vector kept = hn::Mul(hn::LoadU(d, own + i), keep);
        hn::StoreU(hn::MulAdd(hn::LoadU(d, other + i), add, kept), d, own + i);
      }
    };
    fold(from.sum + r * kSumLanes, row.sum, kSumLanes);
    fold(from.weighted + r * features, row.weighted, features);
    row.max = max;
  }
}

// Divides a row's weighted values by its sum. `y` has `count` of them.
inline void finish_attention(const float* sum, const float* weighted, int64_t count, float* y) {
  const Floats d;
  Vector total = hn::LoadU(d, sum);
  for (int64_t i = kLanes; i < kSumLanes; i += kLanes)
    total = hn::Add(total, hn::LoadU(d, sum + i));
  const Vector inverse = hn::Div(hn::Set(d, 1.0f), hn::SumOfLanes(d, total));
  for (int64_t i = 0; i < count; i += kLanes) {
    store_columns(hn::Mul(hn::LoadU(d, weighted + i), inverse), y + i, count - i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_SOFTMAX_INL_H_
