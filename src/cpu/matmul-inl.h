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

// Where A[row, k] of a tile of R rows and `count` columns lies.
struct Interleaved {
  template <int R>
  static constexpr int64_t offset(int row, int64_t k, int64_t count) {
    const int64_t first = row / kQuad * kQuad;
    return first * count + k * std::min<int64_t>(kQuad, R - first) + row % kQuad;
  }
};
template <int64_t kStride>
struct RowMajor {
  template <int R>
  static constexpr int64_t offset(int row, int64_t k, int64_t /*count*/) {
    return row * kStride + k;
  }
};

template <class Word>
struct Tile {
  const float* a;
  const Word* panels;
  int64_t panel_words;  // from one panel to the next
  int64_t columns;      // whole panels
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

// sums <- `init`, or 0, for the columns of Q pairs.
template <int R, int Q>
HWY_INLINE void load_sums(const float* init, int64_t stride, int64_t first_pair,
                          Vector (&sums)[R][Q][2]) {
  const Floats d;
  for (int r = 0; r < R; ++r) {
    for (int q = 0; q < Q; ++q) {
      const int64_t column = first_column(first_pair + q);
      if (init == nullptr) {
        sums[r][q][0] = sums[r][q][1] = hn::Zero(d);
      } else {
        sums[r][q][0] = hn::LoadU(d, init + r * stride + column);
        sums[r][q][1] = hn::LoadU(d, init + r * stride + column + kHalfPanel);
      }
    }
  }
}

template <int R, int Q>
HWY_INLINE void store_sums(const Vector (&sums)[R][Q][2], int64_t first_pair, float* y,
                           int64_t stride) {
  const Floats d;
  for (int r = 0; r < R; ++r) {
    for (int q = 0; q < Q; ++q) {
      const int64_t column = first_column(first_pair + q);
      hn::StoreU(sums[r][q][0], d, y + r * stride + column);
      hn::StoreU(sums[r][q][1], d, y + r * stride + column + kHalfPanel);
    }
  }
}

template <int R, int Q, class Weights, class Rows>
HWY_INLINE void multiply_pairs(const Tile<typename Weights::Word>& tile, int64_t first_pair) {
  const Floats d;
  Vector sums[R][Q][2];
  load_sums(tile.init, tile.init_stride, first_pair, sums);
  const typename Weights::Word* HWY_RESTRICT w[Q];
  for (int q = 0; q < Q; ++q) {
    const int64_t pair = first_pair + q;
    w[q] = tile.panels + pair / kPairs * tile.panel_words + pair % kPairs * kLanes;
  }
  const float* HWY_RESTRICT a = tile.a;
  for (int64_t k = 0; k < tile.k; ++k) {
    Vector weights[Q][2];
    for (int q = 0; q < Q; ++q) {
      if constexpr (R >= kPrefetchRows) hwy::Prefetch(w[q] + k * Weights::kRow + kPrefetchWords);
      Weights::load(w[q] + k * Weights::kRow, weights[q][0], weights[q][1]);
    }
    for (int r = 0; r < R; ++r) {
      const Vector x = hn::Set(d, a[Rows::template offset<R>(r, k, tile.k)]);
      for (int q = 0; q < Q; ++q) {
        sums[r][q][0] = hn::MulAdd(x, weights[q][0], sums[r][q][0]);
        sums[r][q][1] = hn::MulAdd(x, weights[q][1], sums[r][q][1]);
      }
    }
  }
  store_sums(sums, first_pair, tile.y, tile.y_stride);
}

template <int R, class Weights, class Rows>
void multiply_rows(const Tile<typename Weights::Word>& tile) {
  constexpr int kAtOnce = pairs_at_once(R);
  const int64_t pairs = tile.columns / kPanel * kPairs;
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

// What one tile of rows times some panels adds to: init (nullptr: 0), and where it goes.
struct Sums {
  const float* init;
  int64_t init_stride;
  float* y;
  int64_t y_stride;
};

// Weights as floats: fp32 and bf16.
template <class Weights>
struct FloatProduct {
  static const float* panel(const PackedMatrix& w, int64_t i, const float*) {
    return w.fp32_panel(i);
  }
  static const uint32_t* panel(const PackedMatrix& w, int64_t i, const uint32_t*) {
    return w.word_panel(i);
  }
  // Tile t of A times `panels` panels, for k in [first_k, first_k + count), one block of A.
  static void multiply(const PackedRows& a, int64_t t, int64_t first_k, int64_t count,
                       const PackedMatrix& w, int64_t first_panel, int64_t panels,
                       const Sums& sums) {
    using Word = typename Weights::Word;
    const Word* const from = panel(w, first_panel, static_cast<const Word*>(nullptr));
    multiply_tile<Weights, Interleaved>(a.tile_rows(t), {.a = a.data + a.offset(t, first_k, count),
                                                         .panels = from + first_k * Weights::kRow,
                                                         .panel_words = w.panel_words(),
                                                         .columns = panels * kPanel,
                                                         .k = count,
                                                         .init = sums.init,
                                                         .init_stride = sums.init_stride,
                                                         .y = sums.y,
                                                         .y_stride = sums.y_stride});
  }
};

// Product::multiply of a panel of which y has only the first `columns` columns.
template <class Product>
void multiply_ragged(const PackedRows& a, int64_t t, int64_t first_k, int64_t count,
                     const PackedMatrix& w, int64_t panel, int64_t columns, const Sums& sums) {
  HWY_ALIGN float y[kTileRows * kPanel] = {};
  const int64_t rows = a.tile_rows(t);
  Sums padded = {sums.init, sums.init_stride, y, kPanel};
  if (sums.init == sums.y) {
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(sums.y + r * sums.y_stride, columns, y + r * kPanel);
    }
    padded.init = y;
    padded.init_stride = kPanel;
  }
  Product::multiply(a, t, first_k, count, w, panel, 1, padded);
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(y + r * kPanel, columns, sums.y + r * sums.y_stride);
  }
}

template <class Product>
void multiply_panels(const PackedRows& a, const PackedMatrix& w, int64_t first_panel,
                     int64_t panels, const float* bias, MutableMatrixView y) {
  const int64_t whole = std::min(panels, w.n() / kPanel - first_panel);
  const int64_t column = first_panel * kPanel, ragged_column = column + whole * kPanel;
  for (int64_t first_k = 0; first_k < a.k; first_k += a.k_block) {
    const int64_t count = std::min(a.k_block, a.k - first_k);
    for (int64_t t = 0; t < a.tiles; ++t) {
      float* const row = y.row(a.first_row(t));
      const auto sums_at = [&](int64_t at) {
        const Sums start = {bias == nullptr ? nullptr : bias + at, 0, row + at, y.stride};
        const Sums next = {row + at, y.stride, row + at, y.stride};
        return first_k == 0 ? start : next;
      };
      if (whole > 0) {
        Product::multiply(a, t, first_k, count, w, first_panel, whole, sums_at(column));
      }
      if (whole < panels) {
        multiply_ragged<Product>(a, t, first_k, count, w, first_panel + whole,
                                 w.n() - ragged_column, sums_at(ragged_column));
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_MATMUL_INL_H_
