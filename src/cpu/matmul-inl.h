// Register-tiled matrix multiplication for one instruction set (see kernels.h). The include guard
// is unusual because Highway includes this file once per target.
//
// A tile is R rows x V vectors of neighbouring columns. All R · V sums stay in registers while k
// advances, word by word of the weights. A word holds one fp32, two bf16 or four bytes of
// neighbouring k and one column.

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
#include "cpu/prefetch.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kHalfPanel>;
using Vector = hn::Vec<Floats>;
using Words = hn::RebindToSigned<Floats>;
using WordVector = hn::Vec<Words>;
inline constexpr int64_t kLanes = hn::MaxLanes(Floats());
inline constexpr int64_t kPanelVectors = kPanel / kLanes;

// The largest tiles that fit into the registers. On AVX-512 and NEON, the two sums of each of 12
// rows fill 24 registers, and words, weights and an activation fill five more. On older x86, the
// sums of 6 rows fill 12 registers, and weights and an activation three more.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
inline constexpr int kRegisters = 32, kTileRows = 12;
#else
inline constexpr int kRegisters = 16, kTileRows = 6;
#endif

// Returns how many vectors of columns a tile has. With few rows many vectors are needed, because
// otherwise the latency of the multiply-add would be the limit. Eight independent sums (latency 4,
// two per cycle) are enough, if registers are left for the operands.
constexpr int vectors_at_once(int rows) {
  return rows == 1 ? 8 : 4 * rows + 8 <= kRegisters ? 4 : 2;
}

// Returns how far ahead products of R rows prefetch weights, in words. From a Dot's kPrefetchRows
// on they always prefetch. With fewer rows they only prefetch if the CPU gains by it (see
// prefetch.h). With one row they never do.
template <int R, class Dot>
HWY_INLINE int64_t words_ahead() {
  return R >= Dot::kPrefetchRows ? kPrefetchWords : few_rows_prefetch_words();
}

// Keeps a sum in its register. With all 16 registers in use, GCC would otherwise move sums, spill
// some of them, or add products before they reach their sum. Measured on Zen 3 (one core, in
// cache): six rows of bf16 become 1.5 times as fast, nearly the CPU's peak.
template <class V>
HWY_INLINE V in_place(V sum) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_SSE4 && HWY_TARGET > HWY_AVX3
  asm("" : "+x"(sum.raw));
#endif
  return sum;
}

// Returns sum + w · x, rounded once. GCC believes that NEON's intrinsic reads memory and would
// store every sum at every step; from its own operators it makes the same instruction.
HWY_INLINE Vector multiply_add(Vector sum, Vector w, Vector x) {
#if HWY_TARGET == HWY_NEON
  return Vector(sum.raw + w.raw * x.raw);
#else
  return in_place(hn::MulAdd(x, w, sum));
#endif
}

// How a vector of words is multiplied with rows of A. A word of the weights holds kDepth
// neighbouring k. It is used in kParts parts, each of which takes one word X of each row of A.
struct Fp32Dot {
  using Word = float;
  using X = float;
  using Sum = Vector;
  static constexpr int kParts = 1, kDepth = 1, kPrefetchRows = 4;
  template <int kPart>
  static HWY_INLINE Vector part(Vector word) {
    return word;
  }
  static HWY_INLINE Vector add(Vector sum, Vector w, Vector x) { return multiply_add(sum, w, x); }
};

// Widens bf16 weights to fp32, first those of even k, then those of odd k.
struct WidenedBf16Dot {
  using Word = uint32_t;
  using X = float;
  using Sum = Vector;
  static constexpr int kParts = 2, kDepth = 2, kPrefetchRows = 4;
  template <int kPart>
  static HWY_INLINE Vector part(hn::Vec<hn::RebindToUnsigned<Floats>> word) {
    const hn::RebindToUnsigned<Floats> words;
    if constexpr (kPart == 0) {
      return hn::BitCast(Floats(), hn::ShiftLeft<16>(word));
    } else {
      return hn::BitCast(Floats(), hn::And(word, hn::Set(words, 0xFFFF0000u)));
    }
  }
  static HWY_INLINE Vector add(Vector sum, Vector w, Vector x) { return multiply_add(sum, w, x); }
};

// The instruction for sum + w[0] · x[0] + w[1] · x[1] on pairs of bf16. It is assembly because
// Highway does not ask the compiler for AVX512-BF16 or NEON's counterpart. Only called on CPUs that
// have it (see kernels.cc).
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
struct PairBf16Dot {
  using Word = int32_t;
  using X = int32_t;
  using Sum = Vector;
  static constexpr int kParts = 1, kDepth = 2, kPrefetchRows = 4;
  template <int kPart>
  static HWY_INLINE WordVector part(WordVector word) {
    return word;
  }
  static HWY_INLINE Vector add(Vector sum, WordVector w, WordVector x) {
#if HWY_TARGET == HWY_AVX3
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(w.raw), "v"(x.raw));
#else
    asm(".arch armv8.6-a+crypto\n\tbfdot %0.4s, %1.8h, %2.8h"
        : "+w"(sum.raw)
        : "w"(w.raw), "w"(x.raw));
#endif
    return sum;
  }
};
#else
using PairBf16Dot = WidenedBf16Dot;
#endif

// The two orders of words in a tile. offset() returns where word i of a row lies, in a tile of R
// rows with `count` words per row.
struct Interleaved {
  template <int R>
  static constexpr int64_t offset(int row, int64_t i, int64_t count) {
    const int64_t first = row / kQuad * kQuad;
    return first * count + i * std::min<int64_t>(kQuad, R - first) + row % kQuad;
  }
};
template <int64_t kStride>
struct RowMajor {
  template <int R>
  static constexpr int64_t offset(int row, int64_t i, int64_t /*count*/) {
    return row * kStride + i;
  }
};

// The sums of one tile of rows and some panels: their initial values (0 if `init` is null), and
// where the results go.
struct Sums {
  const float* init;
  int64_t init_stride;
  float* y;
  int64_t y_stride;
};

// Neighbouring panels of weights in memory, from some k on.
struct Panels {
  const uint32_t* words;
  int64_t panel_words;  // from one panel to the next
  int64_t count;

  Panels range(int64_t first, int64_t panels) const {
    return {words + first * panel_words, panel_words, panels};
  }
};

// Products that read the packed weights directly.
struct InPlace {
  // Returns the panels of a part, for k in [first_k, first_k + count).
  static Panels block(const PackedMatrix& w, const ProductPart& part, int64_t first_k,
                      int64_t /*count*/) {
    return {w.panel(part.first_panel) + w.words_before(first_k), w.panel_words(), part.panels};
  }
};

// A tile of rows of A, the panels that it is multiplied with, and the sums.
template <class Dot>
struct Tile {
  const typename Dot::X* a;
  int64_t count;  // words per row of A
  const typename Dot::Word* panels;
  int64_t panel_words;  // from one panel to the next
  int64_t columns;      // a whole number of panels
  Sums sums;
};

// Loads a vector. If fewer columns are left, it is filled element by element, so that nothing
// outside the row is read.
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

// Loads the initial sums, or 0, for V vectors of columns.
template <int R, int V>
HWY_INLINE void load_sums(const Sums& from, int64_t column, Vector (&sums)[R][V]) {
  if (from.init == nullptr) {
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < V; ++v) sums[r][v] = hn::Zero(Floats());
    }
    return;
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) {
      sums[r][v] = hn::LoadU(Floats(), from.init + r * from.init_stride + column + v * kLanes);
    }
  }
}

// Stores whole vectors; partial panels go through multiply_ragged.
template <int R, int V>
HWY_INLINE void store_sums(const Vector (&sums)[R][V], int64_t column, const Sums& to) {
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) {
      hn::StoreU(sums[r][v], Floats(), to.y + r * to.y_stride + column + v * kLanes);
    }
  }
}

// Sets w[v] to the first word of each of V vectors of columns.
template <int V, class Word>
HWY_INLINE void find_vectors(const Word* panels, int64_t panel_words, int64_t first,
                             const Word* HWY_RESTRICT (&w)[V]) {
  for (int v = 0; v < V; ++v) {
    w[v] =
        panels + (first + v) / kPanelVectors * panel_words + (first + v) % kPanelVectors * kLanes;
  }
}

// Words that are used in two parts are read twice if there are no registers to keep them. The asm
// hides from the compiler that the pointer is the same.
template <int kPart, class Word>
HWY_INLINE const Word* read_again(const Word* words) {
  if constexpr (kPart > 0 && kRegisters == 16) asm("" : "+r"(words));
  return words;
}

// Performs one part of one step: adds that part of the words at w[v] + step times word i of each
// row of A to `sums`. With one row, the vectors of weights are loaded one after the other. With
// more rows, they are kept in registers and the rows' words are loaded one after the other.
template <int kPart, int R, int V, class Dot, class Rows>
HWY_INLINE void add_part(const typename Dot::X* HWY_RESTRICT a, int64_t i, int64_t count,
                         const typename Dot::Word* HWY_RESTRICT const (&w)[V], int64_t step,
                         typename Dot::Sum (&sums)[R][V]) {
  const hn::Rebind<typename Dot::X, Floats> rows;
  const hn::Rebind<typename Dot::Word, Floats> words;
  const auto weights = [&](int v) HWY_ATTR {
    return Dot::template part<kPart>(hn::LoadU(words, read_again<kPart>(w[v]) + step * kPanel));
  };
  const auto x = [&](int r)
                     HWY_ATTR { return hn::Set(rows, a[Rows::template offset<R>(r, i, count)]); };
  if constexpr (R == 1) {
    const auto of_row = x(0);
    for (int v = 0; v < V; ++v) sums[0][v] = Dot::add(sums[0][v], weights(v), of_row);
  } else {
    decltype(weights(0)) of_vectors[V];
    for (int v = 0; v < V; ++v) of_vectors[v] = weights(v);
    for (int r = 0; r < R; ++r) {
      const auto of_row = x(r);
      for (int v = 0; v < V; ++v) sums[r][v] = Dot::add(sums[r][v], of_vectors[v], of_row);
    }
  }
}

// Adds the `count` words of each row of A times V vectors of columns to `sums`. `count` is in words
// of A. If a word of the weights has two parts, an odd count leaves one part at the end.
template <int R, int V, class Dot, class Rows>
HWY_INLINE void accumulate(const typename Dot::X* HWY_RESTRICT a, int64_t count,
                           const typename Dot::Word* HWY_RESTRICT const (&w)[V],
                           typename Dot::Sum (&sums)[R][V]) {
  const int64_t ahead = words_ahead<R, Dot>();
  const int64_t steps = count / Dot::kParts;
  for (int64_t step = 0; step < steps; ++step) {
    if constexpr (R > 1) {
      for (int v = 0; v < V; ++v) hwy::Prefetch(w[v] + step * kPanel + ahead);
    }
    add_part<0, R, V, Dot, Rows>(a, step * Dot::kParts, count, w, step, sums);
    if constexpr (Dot::kParts == 2) {
      add_part<1, R, V, Dot, Rows>(a, 2 * step + 1, count, w, step, sums);
    }
  }
  if constexpr (Dot::kParts == 2) {
    if (2 * steps < count) add_part<0, R, V, Dot, Rows>(a, count - 1, count, w, steps, sums);
  }
}

template <int R, int V, class Dot, class Rows>
HWY_INLINE void multiply_vectors(const Tile<Dot>& tile, int64_t first) {
  Vector sums[R][V];
  const typename Dot::Word* HWY_RESTRICT w[V];
  load_sums(tile.sums, first * kLanes, sums);
  find_vectors(tile.panels, tile.panel_words, first, w);
  accumulate<R, V, Dot, Rows>(tile.a, tile.count, w, sums);
  store_sums(sums, first * kLanes, tile.sums);
}

// Calls multiply(number of vectors as a constant, first vector) for all vectors of columns.
template <int R, class Multiply>
HWY_INLINE void for_each_vectors(int64_t columns, const Multiply& multiply) {
  constexpr int kAtOnce = vectors_at_once(R), kRest = kPanelVectors;
  const int64_t vectors = columns / kLanes;
  int64_t first = 0;
  for (; first + kAtOnce <= vectors; first += kAtOnce) {
    multiply(std::integral_constant<int, kAtOnce>(), first);
  }
  if constexpr (kAtOnce > kPanelVectors) {  // otherwise a panel leaves no rest
    for (; first < vectors; first += kRest) multiply(std::integral_constant<int, kRest>(), first);
  }
}

template <int R, class Dot, class Rows>
void multiply_rows(const Tile<Dot>& tile) {
  for_each_vectors<R>(tile.columns, [&](auto at_once, int64_t first) HWY_ATTR {
    multiply_vectors<R, at_once(), Dot, Rows>(tile, first);
  });
}

// Calls multiply_rows for a height known at run time, 1 ... kTileRows. A table has one function per
// height, because sums only stay in registers if the number of rows is constant.
template <class Dot, class Rows>
void multiply_tile(int64_t rows, const Tile<Dot>& tile) {
  using Function = void (*)(const Tile<Dot>&);
  static constexpr auto kByRows = []<size_t... I>(std::index_sequence<I...>) {
    return std::array<Function, kTileRows>{&multiply_rows<int{I} + 1, Dot, Rows>...};
  }
  (std::make_index_sequence<kTileRows>());
  kByRows[static_cast<size_t>(rows - 1)](tile);
}

// Products with weights of fp32 and bf16.
template <class Dot>
struct FloatProduct : InPlace {
  using Word = typename Dot::Word;
  static constexpr bool kRowsInSteps = false;  // the layout of rows, see packed_rows.h
  static constexpr bool kInPieces = false;     // see amx_pieces-inl.h
  static constexpr int64_t kMostRows = kTileRows;
  // Multiplies tile t of A with these panels, for k in [first_k, first_k + count), which is one
  // block of A.
  static void multiply(const PackedRows& a, int64_t t, int64_t first_k, int64_t count,
                       const Panels& w, const Sums& sums) {
    Tile<Dot> tile = {.a = nullptr,
                      .count = 0,
                      .panels = reinterpret_cast<const Word*>(w.words),
                      .panel_words = w.panel_words,
                      .columns = w.count * kPanel,
                      .sums = sums};
    if constexpr (std::is_same_v<typename Dot::X, float>) {
      tile.a = a.data + a.offset(t, first_k, count);
      tile.count = count;
    } else {
      tile.a = a.words + a.bf16_offset(t, first_k, count);
      tile.count = bf16_words(count);
    }
    multiply_tile<Dot, Interleaved>(a.tile_rows(t), tile);
  }
};

// Calls product.multiply for a panel of which y has only the first `columns` columns.
template <class Product>
void multiply_ragged(Product& product, const PackedRows& a, int64_t t, int64_t first_k,
                     int64_t count, const Panels& panel, int64_t columns, const Sums& sums) {
  HWY_ALIGN float y[kMaxTileRows * kPanel] = {};
  const int64_t rows = a.tile_rows(t);
  Sums padded = {sums.init, sums.init_stride, y, kPanel};
  if (sums.init == sums.y) {
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(sums.y + r * sums.y_stride, columns, y + r * kPanel);
    }
    padded.init = y;
    padded.init_stride = kPanel;
  }
  product.multiply(a, t, first_k, count, panel, padded);
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(y + r * kPanel, columns, sums.y + r * sums.y_stride);
  }
}

// Computes one thread's part of Y, one block of K after the other. The first block starts from the
// bias, from 0, or from what y holds; later blocks continue from y. Whatever the part, an element's
// products are added in the order k = 0, 1, ...
template <class Product>
void multiply_part(const PackedRows& a, const PackedMatrix& w, const ProductPart& part,
                   const float* bias, MutableMatrixView y) {
  Product product;
  const int64_t whole = std::min(part.panels, w.n() / kPanel - part.first_panel);
  const int64_t ragged = whole * kPanel;
  if (bias != nullptr) bias += part.first_panel * kPanel;
  const int64_t end_k = part.end_k(a.k);
  for (int64_t first_k = part.first_k; first_k < end_k; first_k += a.k_block) {
    const int64_t count = std::min(a.k_block, end_k - first_k);
    const Panels block = product.block(w, part, first_k, count);
    for (int64_t t = part.first_tile; t < part.first_tile + part.tiles; ++t) {
      float* const row = y.row(a.first_row(t) - a.first_row(part.first_tile));
      const auto sums_at = [&](int64_t at) {
        const Sums start = {bias == nullptr ? nullptr : bias + at, 0, row + at, y.stride};
        const Sums next = {row + at, y.stride, row + at, y.stride};
        return first_k == 0 && !part.add_to_y ? start : next;
      };
      if (whole > 0) {
        product.multiply(a, t, first_k, count, block.range(0, whole), sums_at(0));
      }
      if (whole < part.panels) {
        multiply_ragged(product, a, t, first_k, count, block.range(whole, 1), y.columns - ragged,
                        sums_at(ragged));
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_MATMUL_INL_H_
