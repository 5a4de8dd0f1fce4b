// Attention for one instruction set (see kernels.h, softmax-inl.h). Highway includes this file once
// per target.
//
// Keys of 32 positions and values of 32 features form panels like those of a weight. Both products,
// scores = q · K^T and probabilities · V, therefore use the tiles of the matrix products.

#if defined(NEURONMM_CPU_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_ATTENTION_INL_H_
#undef NEURONMM_CPU_ATTENTION_INL_H_
#else
#define NEURONMM_CPU_ATTENTION_INL_H_
#endif

#include <array>

#include "cpu/bf16_pairs-inl.h"
#include "cpu/buffer.h"
#include "cpu/kv_cache.h"
#include "cpu/matmul-inl.h"
#include "cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

// One tile of rows and one block of keys and values, of which `count` positions are stored. The
// panels hold zeros or old values beyond them.
struct TileOfAttention {
  const AttentionBlock& all;
  int64_t tile, count;
  const uint32_t *keys, *values;
  PositionScales scales;

  int64_t rows() const { return all.q.tile_rows(tile); }
  int64_t padded() const { return (count + kPanel - 1) / kPanel * kPanel; }
  int64_t features() const { return (all.q.k + kPanel - 1) / kPanel * kPanel; }
  float* weighted() const { return all.sums.weighted + all.q.first_row(tile) * features(); }
};

// The products of attention in fp32, with keys and values of fp32 or bf16.
template <class Dot>
class FloatAttention {
 public:
  static constexpr int kDegree = 6;  // of the polynomial for powers, see vector_math-inl.h
  void score(const TileOfAttention& of) {
    multiply_tile<Dot, Interleaved>(of.rows(),
                                    {.a = of.all.q.data + of.all.q.offset(of.tile, 0, of.all.q.k),
                                     .count = of.all.q.k,
                                     .panels = reinterpret_cast<const Word*>(of.keys),
                                     .panel_words = of.all.key_panel,
                                     .columns = of.padded(),
                                     .sums = {nullptr, 0, scores_, kKeyBlock}});
  }
  float* scores(int64_t row) { return scores_ + row * kKeyBlock; }
  // Replaces two vectors of a row's scores by probabilities.
  HWY_INLINE void store(int64_t row, int64_t /*rows*/, int64_t i, Vector first, Vector second) {
    hn::StoreU(first, Floats(), scores_ + row * kKeyBlock + i);
    hn::StoreU(second, Floats(), scores_ + row * kKeyBlock + i + kLanes);
  }
  void add_values(const TileOfAttention& of) {
    const int64_t features = of.features();
    multiply_tile<Dot, RowMajor<kKeyBlock>>(
        of.rows(), {.a = scores_,
                    .count = of.count,
                    .panels = reinterpret_cast<const Word*>(of.values),
                    .panel_words = of.all.value_panel,
                    .columns = features,
                    .sums = {of.weighted(), features, of.weighted(), features}});
  }

 private:
  using Word = typename Dot::Word;
  HWY_ALIGN float scores_[kTileRows * kKeyBlock];
};

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
// The products of attention with queries and probabilities in bf16, by dot products of pairs. A
// probability has 8 bits, so the polynomial may have an error of 3e-6.
class PairAttention {
 public:
  static constexpr int kDegree = 4;
  void score(const TileOfAttention& of) {
    const int64_t k = of.all.q.k;
    multiply_tile<PairBf16Dot, Interleaved>(
        of.rows(), {.a = of.all.q.words + of.all.q.bf16_offset(of.tile, 0, k),
                    .count = bf16_words(k),
                    .panels = reinterpret_cast<const int32_t*>(of.keys),
                    .panel_words = of.all.key_panel,
                    .columns = of.padded(),
                    .sums = {nullptr, 0, scores_, kKeyBlock}});
  }
  float* scores(int64_t row) { return scores_ + row * kKeyBlock; }
  HWY_INLINE void store(int64_t row, int64_t /*rows*/, int64_t i, Vector first, Vector second) {
    hn::StoreU(InstructionBf16Pairs::round(first, second), Words(),
               probabilities_ + row * kRowWords + i / 2);
  }
  void add_values(const TileOfAttention& of) {
    const int64_t features = of.features();
    multiply_tile<PairBf16Dot, RowMajor<kRowWords>>(
        of.rows(), {.a = probabilities_,
                    .count = (of.count + 1) / 2,
                    .panels = reinterpret_cast<const int32_t*>(of.values),
                    .panel_words = of.all.value_panel,
                    .columns = features,
                    .sums = {of.weighted(), features, of.weighted(), features}});
  }

 private:
  static constexpr int64_t kRowWords = kKeyBlock / 2;
  HWY_ALIGN float scores_[kTileRows * kKeyBlock];
  HWY_ALIGN int32_t probabilities_[kTileRows * kRowWords];
};

#else
using PairAttention = FloatAttention<WidenedBf16Dot>;
#endif

// The products of attention by AMX. Probabilities replace the scores that they come from, which
// takes half of each row, so that both and a block of keys and values fit the first-level cache.
template <class Product>
class AmxAttention {
 public:
  static constexpr int kDegree = 4;
  void score(const TileOfAttention& of) {
    const int64_t k = of.all.q.k, rows = of.rows();
    product_.configure(rows);
    for (int64_t first = 0; first < of.padded(); first += kPanel) {
      product_.multiply_panel(
          rows,
          {.a = of.all.q.words + of.all.q.bf16_offset(of.tile, 0, k),
           .row_words = kBf16StepWords,
           .step_words = rows * kBf16StepWords,
           .w = reinterpret_cast<const int32_t*>(of.keys) + first / kPanel * of.all.key_panel,
           .steps = bf16_words(k) / kBf16StepWords},
          {nullptr, 0, scores_ + first, kKeyBlock});
    }
  }
  float* scores(int64_t row) { return scores_ + row * kKeyBlock; }
  HWY_INLINE void store(int64_t row, int64_t /*rows*/, int64_t i, Vector first, Vector second) {
    hn::StoreU(Product::Bf16Pairs::round(first, second), Words(),
               probabilities() + row * kKeyBlock + i / 2);
  }
  void add_values(const TileOfAttention& of) {
    const int64_t features = of.features();
    for (int64_t first = 0; first < features; first += kPanel) {
      float* const weighted = of.weighted() + first;
      product_.multiply_panel(
          of.rows(),
          {.a = probabilities(),
           .row_words = kKeyBlock,
           .step_words = kBf16StepWords,
           .w = reinterpret_cast<const int32_t*>(of.values) + first / kPanel * of.all.value_panel,
           .steps = of.padded() / kPositions},
          {weighted, features, weighted, features});
    }
  }

 private:
  static constexpr int64_t kPositions = 2 * kBf16StepWords;
  int32_t* probabilities() { return reinterpret_cast<int32_t*>(scores_); }

  Product product_;
  HWY_ALIGN float scores_[kMaxTileRows * kKeyBlock];
};

// Returns the positions of the block at `begin` that a row sees. A token sees positions up to its
// own, at most `window` of them if there is a window. The `group` queries of one token that share a
// key/value head are neighbouring rows.
inline VisibleRange visible_range(const AttentionBlock& b, int64_t row, int64_t begin,
                                  int64_t count) {
  const int64_t position = b.first_position + (b.first_row + row) / b.group;
  const int64_t first = b.window > 0 ? position - b.window + 1 : 0;
  return {std::clamp<int64_t>(first - begin, 0, count),
          std::clamp<int64_t>(position + 1 - begin, 0, count)};
}

// Expands `count` bytes to bf16, which has all their values.
inline void expand_bytes(const int8_t* from, int64_t count, uint32_t* to) {
  const Words words;
  const hn::Rebind<int8_t, Words> bytes;
  for (int64_t i = 0; i < count; i += 2 * kLanes) {
    const Vector low = hn::ConvertTo(Floats(), hn::PromoteTo(words, hn::LoadU(bytes, from + i)));
    const Vector high =
        hn::ConvertTo(Floats(), hn::PromoteTo(words, hn::LoadU(bytes, from + i + kLanes)));
    hn::StoreU(PortableBf16Pairs::round(low, high), words, reinterpret_cast<int32_t*>(to) + i / 2);
  }
}

// The keys and values of one block of positions as panels of bf16, expanded in memory of the thread
// for the positions that are stored.
class ExpandedBlock {
 public:
  ExpandedBlock(const AttentionBlock& b, const uint32_t* block, int64_t count)
      : scales_{reinterpret_cast<const float*>(block + b.key_scales_offset),
                reinterpret_cast<const float*>(block + b.value_scales_offset)} {
    thread_local Buffer<uint32_t> memory;
    const int64_t panels = (count + kPanel - 1) / kPanel, key_words = 2 * b.key_panel;
    const int64_t value_panels = (b.q.k + kPanel - 1) / kPanel, value_words = 2 * b.value_panel;
    keys_ = memory.reserve(kKeyBlock / kPanel * key_words + value_panels * value_words);
    values_ = keys_ + kKeyBlock / kPanel * key_words;
    expand_bytes(reinterpret_cast<const int8_t*>(block + b.keys_offset), panels * key_words * 2,
                 keys_);
    const uint32_t* const values = block + b.values_offset;
    for (int64_t panel = 0; panel < value_panels; ++panel) {
      expand_bytes(reinterpret_cast<const int8_t*>(values + panel * b.value_panel),
                   panels * kPanel * kPanel, values_ + panel * value_words);
    }
  }
  const uint32_t* keys() const { return keys_; }
  const uint32_t* values() const { return values_; }
  const PositionScales& scales() const { return scales_; }

 private:
  PositionScales scales_;
  uint32_t *keys_, *values_;
};

// The scales of the keys of scores that have been multiplied by them.
inline constexpr auto kAllOnes = [] {
  std::array<float, kKeyBlock> ones{};
  for (float& one : ones) one = 1.0f;
  return ones;
}();
inline constexpr const float* kOnes = kAllOnes.data();

// Replaces `count` scores by tanh(factor · score), with the scales of the keys (kScaled). The mask
// comes later, because capping -infinity would make it finite.
template <bool kScaled>
inline void cap_scores(const float* key_scales, float factor, int64_t count, float* scores) {
  const Floats d;
  const Vector c = hn::Set(d, factor);
  for (int64_t i = 0; i < count; i += kLanes) {
    Vector score = hn::Mul(hn::LoadU(d, scores + i), c);
    if constexpr (kScaled) score = hn::Mul(score, hn::LoadU(d, key_scales + i));
    hn::StoreU(hyperbolic_tangent(score), d, scores + i);
  }
}

template <bool kScaled, class Products>
HWY_INLINE void attend_tile(const TileOfAttention& of, int64_t begin, Products& products) {
  const AttentionBlock& b = of.all;
  const int64_t rows = of.rows(), first = b.q.first_row(of.tile), features = of.features();
  products.score(of);
  PositionScales scales = of.scales;
  if (b.cap_factor != 0.0f) {
    for (int64_t r = 0; r < rows; ++r) {
      cap_scores<kScaled>(scales.keys, b.cap_factor, of.padded(), products.scores(r));
    }
    scales.keys = kOnes;
  }
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = first + r;
    const RowSums sums = {b.sums.max[row], b.sums.sum + row * kSumLanes,
                          b.sums.weighted + row * features, features};
    softmax_row<Products::kDegree, kScaled>(
        products.scores(r), of.padded(), visible_range(b, row, begin, of.count), scales, b.scale,
        sums,
        [&](int64_t i, Vector one, Vector two) HWY_ATTR { products.store(r, rows, i, one, two); });
  }
  products.add_values(of);
}

// The outer loop goes over blocks, so that a block of keys and values stays in cache for all rows.
// It starts with empty sums. Blocks of int8 (kBytes) are expanded for all rows.
template <class Products, bool kBytes = false>
void attend(const AttentionBlock& block) {
  AttentionBlock b = block;
  if constexpr (kBytes) {  // the panels that are multiplied have bf16
    b.key_panel *= 2;
    b.value_panel *= 2;
  }
  const int64_t features = (b.q.k + kPanel - 1) / kPanel * kPanel;
  std::fill_n(b.sums.max, b.q.rows, kMinusInfinity);
  std::fill_n(b.sums.sum, b.q.rows * kSumLanes, 0.0f);
  std::fill_n(b.sums.weighted, b.q.rows * features, 0.0f);
  Products products;
  for (int64_t begin = b.begin; begin < b.end; begin += kKeyBlock) {
    const uint32_t* const stored = b.blocks[begin / kKeyBlock];
    TileOfAttention of = {.all = b,
                          .tile = 0,
                          .count = std::min(kKeyBlock, b.end - begin),
                          .keys = stored + b.keys_offset,
                          .values = stored + b.values_offset,
                          .scales = {}};
    if constexpr (kBytes) {
      const ExpandedBlock expanded(block, stored, of.count);
      of.keys = expanded.keys();
      of.values = expanded.values();
      of.scales = expanded.scales();
    }
    for (of.tile = 0; of.tile < b.q.tiles; ++of.tile) {
      attend_tile<kBytes>(of, begin, products);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_ATTENTION_INL_H_
