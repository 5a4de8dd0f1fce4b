// Register-tiled matrix multiplication for one instruction set (see kernels.h). No include guard of
// the usual kind: Highway includes this file once per target.
//
// A tile is R rows x Q column pairs, a pair being two vectors kHalfPanel columns apart (the two
// that one word vector of a bf16 panel holds). All R · 2Q sums stay in registers while k advances.

#if defined(NEURONMM_CPU_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_MATMUL_INL_H_
#undef NEURONMM_CPU_MATMUL_INL_H_
#else
#define NEURONMM_CPU_MATMUL_INL_H_
#endif

#include <algorithm>
#include <array>
#include <utility>

#include "cpu/kernels.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kHalfPanel>;
using Vector = hn::Vec<Floats>;
inline constexpr int64_t kLanes = hn::MaxLanes(Floats());
inline constexpr int64_t kPairs = kHalfPanel / kLanes;  // column pairs of a panel

// 12 x 2 sums + 2 weights + 1 activation fill 27 of AVX-512's 32 registers; 6 x 2 + 2 + 1 fill 15
// of the 16 that the older x86 sets have.
#if HWY_TARGET <= HWY_AVX3
inline constexpr int kTileRows = 12;
#else
inline constexpr int kTileRows = 6;
#endif

// Few rows need several pairs at once, or the latency of the multiply-add would be the limit: at
// least 8 independent sums (latency 4, two per cycle).
constexpr int pairs_at_once(int rows) { return rows == 1 ? 4 : 2 * rows <= kTileRows ? 2 : 1; }

// With few rows, memory is the limit and the out-of-order window already runs far ahead;
// prefetching only costs. From 4 rows on, computing is, and asking for the weights 4 KiB ahead
// hides their latency (measured on Zen 4, M = 8: 87 -> 103 GFLOP/s of 118 per core).
inline constexpr int kPrefetchRows = 4;
inline constexpr int64_t kPrefetchWords = 1024;

struct Bf16Weights {
  using Word = uint32_t;
  static constexpr int64_t kRow = kHalfPanel;
  static HWY_INLINE void load(const uint32_t* HWY_RESTRICT word, Vector& low, Vector& high) {
    const hn::RebindToUnsigned<Floats> words;
    const auto both = hn::LoadU(words, word);
    low = hn::BitCast(Floats(), hn::ShiftLeft<16>(both));
    high = hn::BitCast(Floats(), hn::And(both, hn::Set(words, 0xFFFF0000u)));
  }
};

struct Fp32Weights {
  using Word = float;
  static constexpr int64_t kRow = kPanel;
  static HWY_INLINE void load(const float* HWY_RESTRICT word, Vector& low, Vector& high) {
    low = hn::LoadU(Floats(), word);
    high = hn::LoadU(Floats(), word + kHalfPanel);
  }
};

// Where A[row, k] of a tile of R rows lies.
struct Interleaved {
  template <int R>
  static constexpr int64_t offset(int row, int64_t k) {
    return k * R + row;
  }
};
template <int64_t kStride>
struct RowMajor {
  template <int R>
  static constexpr int64_t offset(int row, int64_t k) {
    return row * kStride + k;
  }
};

template <class Word>
struct Tile {
  const float* a;
  const Word* panels;
  int64_t panel_words;  // from one panel to the next
  int64_t columns;      // of y; panels beyond them are padding
  int64_t k;
  const float* init;  // what the sums start from; nullptr: 0
  int64_t init_stride;
  float* y;
  int64_t y_stride;
};

HWY_INLINE Vector load_columns(const float* from, int64_t count) {
  if (count >= kLanes) return hn::LoadU(Floats(), from);
  HWY_ALIGN float lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = from[i];
  return hn::Load(Floats(), lanes);
}

HWY_INLINE void store_columns(Vector values, float* to, int64_t count) {
  if (count >= kLanes) {
    hn::StoreU(values, Floats(), to);
    return;
  }
  HWY_ALIGN float lanes[kLanes];
  hn::Store(values, Floats(), lanes);
  for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
}

constexpr int64_t first_column(int64_t pair) {
  return pair / kPairs * kPanel + pair % kPairs * kLanes;
}

template <int R, int Q, class Weights, class Rows>
HWY_INLINE void multiply_pairs(const Tile<typename Weights::Word>& tile, int64_t first_pair) {
  const Floats d;
  Vector sums[R][Q][2];
  const typename Weights::Word* HWY_RESTRICT w[Q];
  for (int q = 0; q < Q; ++q) {
    const int64_t pair = first_pair + q;
    w[q] = tile.panels + pair / kPairs * tile.panel_words + pair % kPairs * kLanes;
    for (int r = 0; r < R; ++r) {
      for (int half = 0; half < 2; ++half) {
        const int64_t column = first_column(pair) + half * kHalfPanel;
        sums[r][q][half] =
            tile.init == nullptr
                ? hn::Zero(d)
                : load_columns(tile.init + r * tile.init_stride + column, tile.columns - column);
      }
    }
  }
  const float* HWY_RESTRICT a = tile.a;
  for (int64_t k = 0; k < tile.k; ++k) {
    Vector weights[Q][2];
    for (int q = 0; q < Q; ++q) {
      if constexpr (R >= kPrefetchRows) hwy::Prefetch(w[q] + k * Weights::kRow + kPrefetchWords);
      Weights::load(w[q] + k * Weights::kRow, weights[q][0], weights[q][1]);
    }
    for (int r = 0; r < R; ++r) {
      const Vector x = hn::Set(d, a[Rows::template offset<R>(r, k)]);
      for (int q = 0; q < Q; ++q) {
        sums[r][q][0] = hn::MulAdd(x, weights[q][0], sums[r][q][0]);
        sums[r][q][1] = hn::MulAdd(x, weights[q][1], sums[r][q][1]);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int q = 0; q < Q; ++q) {
      for (int half = 0; half < 2; ++half) {
        const int64_t column = first_column(first_pair + q) + half * kHalfPanel;
        store_columns(sums[r][q][half], tile.y + r * tile.y_stride + column, tile.columns - column);
      }
    }
  }
}

template <int R, class Weights, class Rows>
void multiply_rows(const Tile<typename Weights::Word>& tile) {
  constexpr int kAtOnce = pairs_at_once(R);
  const int64_t pairs = (tile.columns + kPanel - 1) / kPanel * kPairs;
  int64_t pair = 0;
  for (; pair + kAtOnce <= pairs; pair += kAtOnce) {
    multiply_pairs<R, kAtOnce, Weights, Rows>(tile, pair);
  }
  for (; pair < pairs; ++pair) multiply_pairs<R, 1, Weights, Rows>(tile, pair);
}

// multiply_rows for a height known at run time, 1 ... kTileRows.
template <class Weights, class Rows>
void multiply_tile(int64_t rows, const Tile<typename Weights::Word>& tile) {
  using Function = void (*)(const Tile<typename Weights::Word>&);
  static constexpr auto kByRows = []<size_t... I>(std::index_sequence<I...>) {
    return std::array<Function, kTileRows>{&multiply_rows<int{I} + 1, Weights, Rows>...};
  }
  (std::make_index_sequence<kTileRows>());
  kByRows[static_cast<size_t>(rows - 1)](tile);
}

template <class Weights>
void multiply_panels(const PackedRows& a, const typename Weights::Word* panels, int64_t columns,
                     const float* bias, MutableMatrixView y) {
  for (int64_t first_k = 0; first_k < a.k; first_k += a.k_block) {
    const int64_t count = std::min(a.k_block, a.k - first_k);
    for (int64_t t = 0; t < a.tiles; ++t) {
      float* const y_tile = y.row(a.first_row(t));
      const bool first = first_k == 0;
      multiply_tile<Weights, Interleaved>(a.tile_rows(t),
                                          {.a = a.data + a.offset(t, first_k, count),
                                           .panels = panels + first_k * Weights::kRow,
                                           .panel_words = a.k * Weights::kRow,
                                           .columns = columns,
                                           .k = count,
                                           .init = first ? bias : y_tile,
                                           .init_stride = first ? 0 : y.stride,
                                           .y = y_tile,
                                           .y_stride = y.stride});
    }
  }
}

inline void multiply(const PackedRows& a, const PackedMatrix& w, int64_t first_panel,
                     int64_t panels, const float* bias, MutableMatrixView y) {
  const int64_t column = first_panel * kPanel;
  const int64_t columns = std::min(panels * kPanel, w.n() - column);
  const float* const panel_bias = bias == nullptr ? nullptr : bias + column;
  y.data += column;
  if (w.is_bf16()) {
    multiply_panels<Bf16Weights>(a, w.bf16_panel(first_panel), columns, panel_bias, y);
  } else {
    multiply_panels<Fp32Weights>(a, w.fp32_panel(first_panel), columns, panel_bias, y);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_MATMUL_INL_H_
