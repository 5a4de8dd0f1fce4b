// Attention with online softmax for one instruction set (see kernels.h). Highway includes this file
// once per target.
//
// Keys of 32 positions and values of 32 features form panels like those of a weight. Both products,
// scores = q · K^T and scores · V, therefore use the register tiles of matmul-inl.h.

#if defined(NEURONMM_CPU_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_ATTENTION_INL_H_
#undef NEURONMM_CPU_ATTENTION_INL_H_
#else
#define NEURONMM_CPU_ATTENTION_INL_H_
#endif

#include <limits>

#include "cpu/kv_cache.h"
#include "cpu/matmul-inl.h"
#include "cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

using Scores = RowMajor<kKeyBlock>;

// The visible positions [first, last) of one row of scores, relative to the block.
struct VisibleRange {
  int64_t first, last;
};

// Returns the positions that a row sees. A token sees positions up to its own, at most `window` of
// them if there is a window. The `group` queries of one token that share a key/value head are
// neighbouring rows.
inline VisibleRange visible_range(const AttentionBlock& b, int64_t row, int64_t block_begin,
                                  int64_t count) {
  const int64_t position = b.first_position + (b.first_row + row) / b.group;
  const int64_t first = b.window > 0 ? position - b.window + 1 : 0;
  return {std::clamp<int64_t>(first - block_begin, 0, count),
          std::clamp<int64_t>(position + 1 - block_begin, 0, count)};
}

// Scales a row of weighted values, which is padded to whole panels, so that whole vectors fit.
inline void scale_row(float* row, float factor, int64_t count) {
  const Floats d;
  for (int64_t i = 0; i < count; i += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, row + i), hn::Set(d, factor)), d, row + i);
  }
}

// Sets scores[0, count) to exp(scores - max), or to 0 for positions that are not visible. Brings
// `max`, `sum` and the row of weighted values to the new maximum. `count` must be a multiple of
// kPanel.
inline void softmax_row(float* scores, int64_t count, VisibleRange visible, float& max, float& sum,
                        float* weighted, int64_t features) {
  const Floats d;
  // The row sees nothing of this block. Continuing would subtract -infinity from -infinity.
  if (visible.first >= visible.last) {
    std::fill_n(scores, count, 0.0f);
    return;
  }
  constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
  std::fill(scores, scores + visible.first, kMinusInfinity);
  std::fill(scores + visible.last, scores + count, kMinusInfinity);
  Vector largest = hn::Set(d, max);
  for (int64_t i = 0; i < count; i += kLanes) {
    largest = hn::Max(hn::LoadU(d, scores + i), largest);
  }
  const float new_max = hn::GetLane(hn::MaxOfLanes(d, largest));
  Vector total = hn::Zero(d);
  for (int64_t i = 0; i < count; i += kLanes) {
    const Vector p = exponential(hn::Sub(hn::LoadU(d, scores + i), hn::Set(d, new_max)));
    hn::StoreU(p, d, scores + i);
    total = hn::Add(total, p);
  }
  // The sums so far are relative to the old maximum, and e^(x - old) * e^(old - new) = e^(x - new).
  if (new_max != max) {
    const float factor = std::exp(max - new_max);
    scale_row(weighted, factor, features);
    sum *= factor;
    max = new_max;
  }
  sum += hn::GetLane(hn::SumOfLanes(d, total));
}

// Processes positions [begin, begin + count), which lie in one block, for the rows of one register
// tile.
template <class Dot>
void attend_tile(const AttentionBlock& b, int64_t t, int64_t begin, int64_t count) {
  using Word = typename Dot::Word;
  const uint32_t* const block = b.blocks[begin / kKeyBlock];
  // Beyond `count` the block's panels hold zeros or old values; softmax_row sets the scores there
  // to 0.
  const int64_t padded = (count + kPanel - 1) / kPanel * kPanel;
  const int64_t features = (b.q.k + kPanel - 1) / kPanel * kPanel;
  const int64_t rows = b.q.tile_rows(t), first = b.q.first_row(t);
  HWY_ALIGN float scores[kTileRows * kKeyBlock];
  multiply_tile<Dot, Interleaved>(rows,
                                  {.a = b.q.data + b.q.offset(t, 0, b.q.k),
                                   .count = b.q.k,
                                   .panels = reinterpret_cast<const Word*>(block + b.keys_offset),
                                   .panel_words = (b.q.k + Dot::kDepth - 1) / Dot::kDepth * kPanel,
                                   .columns = padded,
                                   .sums = {nullptr, 0, scores, kKeyBlock}});
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = first + r;
    softmax_row(scores + r * kKeyBlock, padded, visible_range(b, row, begin, count), b.max[row],
                b.sum[row], b.weighted + row * features, features);
  }
  float* const weighted = b.weighted + first * features;
  multiply_tile<Dot, Scores>(rows,
                             {.a = scores,
                              .count = count,
                              .panels = reinterpret_cast<const Word*>(block + b.values_offset),
                              .panel_words = kKeyBlock / Dot::kDepth * kPanel,
                              .columns = features,
                              .sums = {weighted, features, weighted, features}});
}

// The outer loop goes over blocks, so that a block of keys and values stays in cache for all rows.
template <class Dot>
void attend_blocks(const AttentionBlock& b) {
  for (int64_t begin = b.begin; begin < b.end; begin += kKeyBlock) {
    const int64_t count = std::min(kKeyBlock, b.end - begin);
    for (int64_t t = 0; t < b.q.tiles; ++t) attend_tile<Dot>(b, t, begin, count);
  }
}

// Starts with empty sums. The first block brings the first maximum, and exp(-infinity - max) is 0.
inline void attend(const AttentionBlock& b) {
  const int64_t features = (b.q.k + kPanel - 1) / kPanel * kPanel;
  std::fill_n(b.max, b.q.rows, -std::numeric_limits<float>::infinity());
  std::fill_n(b.sum, b.q.rows, 0.0f);
  std::fill_n(b.weighted, b.q.rows * features, 0.0f);
  if (b.is_bf16) {
    attend_blocks<WidenedBf16Dot>(b);
  } else {
    attend_blocks<Fp32Dot>(b);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_ATTENTION_INL_H_
