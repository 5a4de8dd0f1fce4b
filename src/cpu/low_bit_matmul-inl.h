// Products with weights of 6 and 4 bits for one instruction set (see kernels.h, packed_matrix.h).
// Highway includes this file once per target.
//
// Codes become the unsigned bytes of int8 panels, which are multiplied as in int8_matmul-inl.h, or
// they are multiplied directly (code_matmul-inl.h). Both give the same integers, so results do not
// differ. With few rows, memory is the limit, and codes are unpacked in registers each time that a
// word is multiplied. With many rows, a block of panels is written into memory that stays in cache.

#if defined(NEURONMM_CPU_LOW_BIT_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_LOW_BIT_MATMUL_INL_H_
#undef NEURONMM_CPU_LOW_BIT_MATMUL_INL_H_
#else
#define NEURONMM_CPU_LOW_BIT_MATMUL_INL_H_
#endif

#include "cpu/buffer.h"
#include "cpu/code_matmul-inl.h"
#include "cpu/low_bit_codes-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

// The number of vectors of lines that are expanded together. Each yields two vectors of sums.
constexpr int lines_at_once(int rows) { return vectors_at_once(rows) / 2; }

// Sets `products` to one group of A (`count` words per row) times P vectors of words at `column` of
// a line, in the same form as for int8 weights.
template <int R, int P, class Codes, class Dot>
HWY_INLINE void dot_bytes(const int32_t* HWY_RESTRICT a, int64_t count,
                          const int32_t* const (&group)[P], const int64_t (&column)[P],
                          WordVector (&products)[R][2 * P]) {
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < 2 * P; ++v) products[r][v] = Dot::start(a[R + r]);
  }
  const int32_t* HWY_RESTRICT x = a + kHeaderWords * R;
  Codes codes[P];
  const auto add_line = [&](auto line, int64_t i) HWY_ATTR {
    WordVector w[P][2];
    for (int p = 0; p < P; ++p) {
      const int32_t* const lines = Codes::lines(group[p], column[p], i);
      prefetch_line<R, line(), Codes, Dot>(lines);
      codes[p].template expand<line()>(lines, column[p], w[p]);
      w[p][0] = Dot::template part<0>(w[p][0]);
      w[p][1] = Dot::template part<0>(w[p][1]);
    }
    for (int r = 0; r < R; ++r) {
      const WordVector value = hn::Set(Words(), x[Interleaved::offset<R>(r, i, count)]);
      for (int v = 0; v < 2 * P; ++v) {
        products[r][v] = Dot::add(products[r][v], w[v / 2][v % 2], value);
      }
    }
  };
  for (int64_t first = 0; first < count; first += Codes::kLines) {
    for (int p = 0; p < P; ++p) codes[p].begin(group[p], column[p], first);
    const int64_t last = std::min(count, first + Codes::kLines);
    for (int64_t i = first; i < last; i += 2) {
      add_line(std::integral_constant<int, 0>(), i);
      add_line(std::integral_constant<int, 1>(), i + 1);
    }
  }
}

// Adds the scaled products of one group to `sums`.
template <int R, int P, class Codes, class Dot>
HWY_INLINE void add_low_bit_group(const int32_t* HWY_RESTRICT a, int64_t count,
                                  const int32_t* const (&group)[P], const int64_t (&column)[P],
                                  Vector (&sums)[R][2 * P]) {
  WordVector products[R][2 * P];
  if constexpr (multiplies_codes<Codes, Dot>(R)) {
    dot_codes<R, P, Codes, Dot>(a, count, group, column, products);
  } else {
    dot_bytes<R, P, Codes, Dot>(a, count, group, column, products);
  }
  for (int p = 0; p < P; ++p) prefetch_factors<R, Codes, Dot>(group[p]);
  for (int v = 0; v < 2 * P; ++v) {
    const Vector scale = load_scales(group[v / 2], column[v / 2] + v % 2 * kHalfPanel);
    for (int r = 0; r < R; ++r) {
      const Vector row_scale = hn::BitCast(Floats(), hn::Set(Words(), a[r]));
      sums[r][v] = add_scaled(sums[r][v], products[r][v], row_scale, scale);
    }
  }
}

// Multiplies P vectors of lines, counted over all panels of a tile, from vector `first` on.
template <int R, int P, class Codes, class Dot>
HWY_INLINE void multiply_lines(const Tile<Dot>& tile, int64_t k, int64_t first) {
  Vector sums[R][2 * P];
  const int32_t* a = tile.a;
  const int32_t* w[P];
  int64_t column[P], y_column[2 * P];
  for (int p = 0; p < P; ++p) {
    const int64_t panel = (first + p) / kLineVectors;
    w[p] = tile.panels + panel * tile.panel_words;
    column[p] = (first + p) % kLineVectors * kLanes;
    y_column[2 * p] = panel * kPanel + column[p];
    y_column[2 * p + 1] = y_column[2 * p] + kHalfPanel;
  }
  for (int r = 0; r < R; ++r) {
    const float* const init =
        tile.sums.init == nullptr ? nullptr : tile.sums.init + r * tile.sums.init_stride;
    for (int v = 0; v < 2 * P; ++v) {
      sums[r][v] = init == nullptr ? hn::Zero(Floats()) : hn::LoadU(Floats(), init + y_column[v]);
    }
  }
  for (; k >= kQuantGroup; k -= kQuantGroup) {  // with a constant number of words
    add_low_bit_group<R, P, Codes, Dot>(a, kGroupWords, w, column, sums);
    a += R * (kHeaderWords + kGroupWords);
    for (int p = 0; p < P; ++p) w[p] += Codes::kWordsOfGroup;
  }
  if (k > 0) {
    add_low_bit_group<R, P, Codes, Dot>(a, int8_words(k), w, column, sums);
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < 2 * P; ++v) {
      hn::StoreU(sums[r][v], Floats(), tile.sums.y + r * tile.sums.y_stride + y_column[v]);
    }
  }
}

template <int R, class Codes, class Dot>
void multiply_low_bit_rows(const Tile<Dot>& tile, int64_t k) {
  constexpr int kAtOnce = lines_at_once(R), kRest = kLineVectors;
  const int64_t lines = tile.columns / kPanel * kLineVectors;
  int64_t first = 0;
  for (; first + kAtOnce <= lines; first += kAtOnce) {
    multiply_lines<R, kAtOnce, Codes, Dot>(tile, k, first);
  }
  if constexpr (kAtOnce > kLineVectors) {  // otherwise a panel leaves no rest
    for (; first < lines; first += kRest) multiply_lines<R, kRest, Codes, Dot>(tile, k, first);
  }
}

// The counterpart of Int8Product for few rows: it expands codes in registers. No tile is higher
// than kMostRows.
template <class Codes, class ByteDot, int64_t kMostRows = kTileRows>
struct LowBitProduct : InPlace {
  using Dot = ByteDot;
  static void multiply(const PackedRows& a, int64_t t, int64_t first_k, int64_t count,
                       const Panels& w, const Sums& sums) {
    using Function = void (*)(const Tile<Dot>&, int64_t);
    static constexpr auto kByRows = []<size_t... I>(std::index_sequence<I...>) {
      return std::array<Function, kMostRows>{&multiply_low_bit_rows<int{I} + 1, Codes, Dot>...};
    }
    (std::make_index_sequence<kMostRows>());
    kByRows[static_cast<size_t>(a.tile_rows(t) - 1)](
        {.a = a.words + a.int8_offset(t, first_k),
         .count = 0,  // each group has its own count
         .panels = reinterpret_cast<const int32_t*>(w.words),
         .panel_words = w.panel_words,
         .columns = w.count * kPanel,
         .sums = sums},
        count);
  }
};

// The variant for many rows: Product runs on panels that are expanded to Form once per block of K,
// in memory of the thread.
template <class Codes, class Form, class Product>
struct ExpandedProduct : Product {
  static Panels block(const PackedMatrix& w, const ProductPart& part, int64_t first_k,
                      int64_t count) {
    thread_local Buffer<uint32_t> expanded;
    const int64_t panel_words = (count + kQuantGroup - 1) / kQuantGroup * Form::kWordsOfGroup;
    uint32_t* to = expanded.reserve(part.panels * panel_words);
    const Panels packed = InPlace::block(w, part, first_k, count);
    for (int64_t panel = 0; panel < part.panels; ++panel) {
      const auto* from =
          reinterpret_cast<const int32_t*>(packed.words + panel * packed.panel_words);
      for (int64_t k = 0; k < count; k += kQuantGroup, to += Form::kWordsOfGroup) {
        prefetch_after(from, Codes::kWordsOfGroup);
        Form::expand(from, std::min(kQuantGroup, count - k), reinterpret_cast<int32_t*>(to));
        from += Codes::kWordsOfGroup;
      }
    }
    return {expanded.data(), panel_words, part.panels};
  }
};

// From this many tiles of rows on, writing the bytes once costs less than expanding codes for each
// tile. Measured on Zen 4 (one core, in cache): 4 bits reach nine tenths of int8's speed if they
// are expanded in registers. From 48 rows on they reach 94 % or more if their bytes are written.
// Multiplying codes directly makes 6 bits a seventh faster on Zen 3 and leaves 4 bits as fast as
// they are.
inline constexpr int64_t kExpandedTiles = 4;

template <class Codes, class ByteProduct>
void multiply_low_bit(const PackedRows& a, const PackedMatrix& w, const ProductPart& part,
                      const float* bias, MutableMatrixView y) {
  using Dot = typename ByteProduct::Dot;
  constexpr bool kAsCodes =
      multiplies_codes<Codes, Dot>(kTileRows) && !ByteProduct::takes_rows(kTileRows);
  const bool few = part.tiles < kExpandedTiles && !ByteProduct::takes_rows(a.tile_rows(0));
  if (few || (kAsCodes && Codes::kBits == 4)) {
    using Product = LowBitProduct<Codes, Dot, ByteProduct::kMostRefusedRows>;
    return multiply_part<Product>(a, w, part, bias, y);
  }
  if constexpr (ByteProduct::kInPieces) {
    const int64_t last = part.first_tile + part.tiles - 1;
    if (ByteProduct::takes_rows(a.tile_rows(last))) {
      using Pieces = typename ByteProduct::template Pieces<SignedCodes<Codes>>;
      return multiply_in_pieces<Pieces>(a, w, part, bias, y);
    }
  }
  if constexpr (!kAsCodes) {
    using Product = ExpandedProduct<Codes, AsBytes<Codes>, ByteProduct>;
    return multiply_part<Product>(a, w, part, bias, y);
  } else if constexpr (Codes::kBits == 6) {
    using Form = AsCodes<Codes>;
    using Product = ExpandedProduct<Codes, Form, LowBitProduct<Form, Dot>>;
    return multiply_part<Product>(a, w, part, bias, y);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_LOW_BIT_MATMUL_INL_H_
