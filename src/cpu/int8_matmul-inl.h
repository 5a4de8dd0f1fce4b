// Products with int8 weights for one instruction set (see kernels.h, packed_matrix.h,
// packed_rows.h). Highway includes this file once per target.
//
// For each group of kQuantGroup columns of K the sum of byte products is exact in int32. It starts
// from the row's correction, is converted to fp32, scaled by row and column, and added to the fp32
// sums, group after group. Results therefore depend neither on tiles nor on the instructions that
// compute the sums.

#if defined(NEURONMM_CPU_INT8_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_INT8_MATMUL_INL_H_
#undef NEURONMM_CPU_INT8_MATMUL_INL_H_
#else
#define NEURONMM_CPU_INT8_MATMUL_INL_H_
#endif

#include "cpu/buffer.h"
#include "cpu/matmul-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
using Pairs = hn::Repartition<int16_t, Words>;
using PairVector = hn::Vec<Pairs>;
#endif

// The interface of instructions that add the dot product of four bytes w and x to the sum in every
// lane, with unsigned w and signed x. Its start() gives the initial sum for a row's correction, and
// weights() converts a word of weights. A word is used in kParts parts, each of which takes one
// word of each row as rows() lays them out. With up to kCodeRows rows, codes of few bits are
// multiplied without expanding them (see code_matmul-inl.h).
struct OfUnsigned {
  using Rows = Interleaved;
  static constexpr int kParts = 1, kCodeRows = 0;
  static HWY_INLINE WordVector start(int32_t correction) { return hn::Set(Words(), correction); }
  template <int kPart>
  static HWY_INLINE WordVector weights(WordVector w) {
    return w;
  }
  static const int32_t* rows(const int32_t* packed, int64_t /*rows*/, int64_t /*k*/) {
    return packed;
  }
};
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_SSE4
// Returns sum + a · b for pairs of 16-bit numbers, where a · b is the dot product of each pair.
HWY_INLINE WordVector add_pairs(WordVector sum, PairVector a, PairVector b) {
  WordVector unused = hn::Zero(Words());
  return in_place(hn::ReorderWidenMulAccumulate(Words(), a, b, sum, unused));
}

// The order of a quad's words [k / 4] as pairs of 16-bit numbers. The even bytes of all words come
// first, and then the odd bytes of all words.
struct EvenThenOdd {
  template <int R>
  static constexpr int64_t offset(int row, int64_t i, int64_t count) {
    return i % 2 * (R * count / 2) + Interleaved::offset<R>(row, i / 2, count / 2);
  }
};

// Multiplies unsigned bytes of w with signed ones of x and adds neighbours in 16 bits.
HWY_INLINE PairVector products_of_bytes(WordVector w, WordVector x) {
#if HWY_TARGET <= HWY_AVX3
  return PairVector{_mm512_maddubs_epi16(w.raw, x.raw)};
#elif HWY_TARGET == HWY_AVX2
  return PairVector{_mm256_maddubs_epi16(w.raw, x.raw)};
#else
  return PairVector{_mm_maddubs_epi16(w.raw, x.raw)};
#endif
}

// Uses pmaddwd on the even bytes of a word, widened to 16 bits, and then on the odd bytes. The rows
// are widened before the product. This costs little compared with a product with all panels of a
// part. Measured on Zen 3 (one core, in cache): it is a seventh faster than widening between the
// multiplications.
struct WidenedByteDot : OfUnsigned {
  using Rows = EvenThenOdd;
  static constexpr int kParts = 2, kCodeRows = kTileRows;
  template <int kPart>
  static HWY_INLINE WordVector weights(WordVector w) {
    const hn::Repartition<uint16_t, Words> d;
    const auto bytes = hn::BitCast(d, w);
    return hn::BitCast(Words(), kPart == 0 ? hn::And(bytes, hn::Set(d, uint16_t{0xFF}))
                                           : hn::ShiftRight<8>(bytes));
  }
  static HWY_INLINE WordVector add(WordVector sum, WordVector w, WordVector x) {
    return add_pairs(sum, hn::BitCast(Pairs(), w), hn::BitCast(Pairs(), x));
  }

  // Codes of 4 bits: the sum of up to 32 products of a code and x fits into 16 bits.
  using CodeSum = PairVector;
  static HWY_INLINE CodeSum multiply_codes(WordVector w, WordVector x) {
    return products_of_bytes(w, x);
  }
  static HWY_INLINE CodeSum add_codes(CodeSum sum, WordVector w, WordVector x) {
    return in_place(hn::Add(sum, products_of_bytes(w, x)));
  }
  static HWY_INLINE WordVector add_multiple(WordVector sum, CodeSum codes, PairVector multiplier) {
    return add_pairs(sum, codes, multiplier);
  }

  // Returns the rows with their words widened; headers stay as they are. Vector loads reach beyond
  // the last word, for which the packed rows have padding.
  static const int32_t* rows(const int32_t* packed, int64_t rows, int64_t k) {
    thread_local Buffer<int32_t> widened;
    const int64_t groups = (k + kQuantGroup - 1) / kQuantGroup;
    int32_t* to = widened.reserve(rows * groups * (kHeaderWords + 2 * kQuantGroup / kWordBytes) +
                                  kRowPadding);
    for (; k > 0; k -= kQuantGroup) {
      to = std::copy_n(packed, rows * kHeaderWords, to);
      packed += rows * kHeaderWords;
      const int64_t words = rows * int8_words(std::min(k, kQuantGroup));
      for (int64_t i = 0; i < words; i += kLanes) {
        const auto even = hn::ShiftLeft<8>(pairs_at(packed + i));
        hn::StoreU(hn::BitCast(Words(), hn::ShiftRight<8>(even)), Words(), to + i);
      }
      to += words;
      for (int64_t i = 0; i < words; i += kLanes) {
        const auto odd = hn::ShiftRight<8>(pairs_at(packed + i));
        hn::StoreU(hn::BitCast(Words(), odd), Words(), to + i);
      }
      to += words;
      packed += words;
    }
    return widened.data();
  }

 private:
  static HWY_INLINE PairVector pairs_at(const int32_t* words) {
    return hn::BitCast(Pairs(), hn::LoadU(Words(), words));
  }
};
#else
struct WidenedByteDot : OfUnsigned {
  template <int kByte>
  static HWY_INLINE WordVector product(WordVector w, WordVector x) {
    const WordVector w_byte =
        hn::And(hn::ShiftRight<8 * kByte>(w), hn::Set(Words(), int32_t{0xFF}));
    return hn::Mul(w_byte, hn::ShiftRight<24>(hn::ShiftLeft<24 - 8 * kByte>(x)));
  }
  static HWY_INLINE WordVector add(WordVector sum, WordVector w, WordVector x) {
    return hn::Add(sum, hn::Add(hn::Add(product<0>(w, x), product<1>(w, x)),
                                hn::Add(product<2>(w, x), product<3>(w, x))));
  }
};
#endif

// The instruction that computes such dot products, as assembly: Highway does not ask the compiler
// for VNNI (or NEON's dot product) in these targets. Only called on CPUs that have it (see
// kernels.cc).
#undef NEURONMM_CPU_ONE_BYTE_DOT
#define NEURONMM_CPU_ONE_BYTE_DOT 1
#if HWY_TARGET == HWY_AVX3
struct OneByteDot : OfUnsigned {
  static constexpr int kCodeRows = 1;
  static HWY_INLINE WordVector add(WordVector sum, WordVector w, WordVector x) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(w.raw), "v"(x.raw));
    return sum;
  }

  // The sum of a group of codes fits into 16 bits, so only its low half is multiplied.
  using CodeSum = WordVector;
  static HWY_INLINE CodeSum multiply_codes(WordVector w, WordVector x) {
    return add(hn::Zero(Words()), w, x);
  }
  static HWY_INLINE CodeSum add_codes(CodeSum sum, WordVector w, WordVector x) {
    return add(sum, w, x);
  }
  static HWY_INLINE WordVector add_multiple(WordVector sum, CodeSum codes, PairVector multiplier) {
    const WordVector low = hn::And(hn::BitCast(Words(), multiplier), hn::Set(Words(), 0xFFFF));
    return add_pairs(sum, hn::BitCast(Pairs(), codes), hn::BitCast(Pairs(), low));
  }
};
#elif HWY_TARGET == HWY_AVX2
struct OneByteDot : OfUnsigned {
  static HWY_INLINE WordVector add(WordVector sum, WordVector w, WordVector x) {
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum.raw) : "x"(w.raw), "x"(x.raw));
    return sum;
  }
};
#elif HWY_TARGET == HWY_NEON
struct OneByteDot : OfUnsigned {  // takes signed weights: w - 128 is w with its highest bit flipped
  static HWY_INLINE WordVector start(int32_t /*correction*/) { return hn::Zero(Words()); }
  template <int kPart>
  static HWY_INLINE WordVector weights(WordVector w) {
    return hn::Xor(w, hn::Set(Words(), static_cast<int32_t>(0x80808080)));
  }
  static HWY_INLINE WordVector add(WordVector sum, WordVector w, WordVector x) {
    asm(".arch armv8.6-a+crypto\n\tsdot %0.4s, %1.16b, %2.16b"
        : "+w"(sum.raw)
        : "w"(w.raw), "w"(x.raw));
    return sum;
  }
};
#else
#undef NEURONMM_CPU_ONE_BYTE_DOT
#define NEURONMM_CPU_ONE_BYTE_DOT 0
using OneByteDot = WidenedByteDot;
#endif

// Int8 dot products in the form that accumulate() (matmul-inl.h) takes. The four bytes of a word
// are multiplied and added to one int32.
template <class Instruction>
struct Int8Dot : Instruction {
  using Word = int32_t;
  using X = int32_t;
  using Sum = WordVector;
  static constexpr int kDepth = 4, kPrefetchRows = 9;
  // Codes of 6 and 4 bits have a limit of their own. Measured on Zen 4 (two cores, weights in
  // memory): with one and two rows prefetching makes 4 bits slower, and with four rows it makes no
  // difference.
  static constexpr int kCodePrefetchRows = 5;
  template <int kPart>
  static HWY_INLINE WordVector part(WordVector word) {
    return Instruction::template weights<kPart>(word);
  }
};

inline constexpr int64_t kScaleWords = kHalfPanel;
// Words of a group per row or column.
inline constexpr int64_t kGroupWords = kQuantGroup / kWordBytes;

// Loads the scales of a group for the vector of columns that begins at `column` of the panel.
HWY_INLINE Vector load_scales(const int32_t* group, int64_t column) {
  const Words words;
  const WordVector pairs = hn::LoadU(words, group + column % kHalfPanel);
  return hn::BitCast(Floats(),
                     column < kHalfPanel
                         ? hn::ShiftLeft<16>(pairs)
                         : hn::And(pairs, hn::Set(words, static_cast<int32_t>(0xFFFF0000))));
}

// Converts the exact int32 to fp32, scales it and adds it to the sum. Every instruction set does
// this with the same operations in the same order, so that the results have the same bits.
HWY_INLINE Vector add_scaled(Vector sum, WordVector product, Vector row_scale, Vector scale) {
  return hn::MulAdd(hn::ConvertTo(Floats(), product), hn::Mul(row_scale, scale), sum);
}

// Adds one group of A (`count` packed words per row) times V vectors of columns, from vector
// `first` on, to `sums`.
template <int R, int V, class Dot>
HWY_INLINE void add_group(const int32_t* HWY_RESTRICT a, int64_t count,
                          const int32_t* const (&group)[V], int64_t first, Vector (&sums)[R][V]) {
  const Words words;
  WordVector products[R][V];
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) products[r][v] = Dot::start(a[R + r]);
  }
  const int32_t* HWY_RESTRICT w[V];
  Vector scales[V];
  for (int v = 0; v < V; ++v) {
    const int64_t column = (first + v) % kPanelVectors * kLanes;
    w[v] = group[v] + kScaleWords + column;
    scales[v] = load_scales(group[v], column);
  }
  accumulate<R, V, Dot, typename Dot::Rows>(a + kHeaderWords * R, Dot::kParts * count, w, products);
  for (int r = 0; r < R; ++r) {
    const Vector row_scale = hn::BitCast(Floats(), hn::Set(words, a[r]));
    for (int v = 0; v < V; ++v) {
      sums[r][v] = add_scaled(sums[r][v], products[r][v], row_scale, scales[v]);
    }
  }
}

// Multiplies whole rows with V vectors of columns. A row of A consists of groups, each with a
// header and its words. The corrections in the header undo the 128 that was added to each weight
// (see packed_rows.h).
template <int R, int V, class Dot>
HWY_INLINE void multiply_int8_vectors(const Tile<Dot>& tile, int64_t k, int64_t first) {
  Vector sums[R][V];
  load_sums(tile.sums, first * kLanes, sums);
  const int32_t* a = tile.a;
  const int32_t* w[V];
  for (int v = 0; v < V; ++v) w[v] = tile.panels + (first + v) / kPanelVectors * tile.panel_words;
  for (; k > 0; k -= kQuantGroup) {
    add_group<R, V, Dot>(a, int8_words(std::min(k, kQuantGroup)), w, first, sums);
    a += R * (kHeaderWords + Dot::kParts * kGroupWords);
    for (int v = 0; v < V; ++v) w[v] += kScaleWords + kGroupWords * kPanel;
  }
  store_sums(sums, first * kLanes, tile.sums);
}

// The height R is a constant, so that all sums stay in registers.
template <int R, class Dot>
void multiply_int8_rows(const Tile<Dot>& tile, int64_t k) {
  for_each_vectors<R>(tile.columns, [&](auto at_once, int64_t first) HWY_ATTR {
    multiply_int8_vectors<R, at_once()>(tile, k, first);
  });
}

// Calls multiply_int8_rows for a height of 1 to kTileRows that is known at run time.
// int8_kernels.cc compiles this for all files that include it.
template <class Dot>
struct Int8Heights {
  static void multiply(int64_t rows, const Tile<Dot>& tile, int64_t k);
};
template <class Dot>
void Int8Heights<Dot>::multiply(int64_t rows, const Tile<Dot>& tile, int64_t k) {
  using Function = void (*)(const Tile<Dot>&, int64_t);
  static constexpr auto kByRows = []<size_t... I>(std::index_sequence<I...>) {
    return std::array<Function, kTileRows>{&multiply_int8_rows<int{I} + 1, Dot>...};
  }
  (std::make_index_sequence<kTileRows>());
  kByRows[static_cast<size_t>(rows - 1)](tile, k);
}
extern template struct Int8Heights<Int8Dot<WidenedByteDot>>;
#if NEURONMM_CPU_ONE_BYTE_DOT
extern template struct Int8Heights<Int8Dot<OneByteDot>>;
#endif

// The int8 counterpart of FloatProduct. Blocks of K consist of whole groups, except the last block.
template <class Instruction>
struct Int8Product : InPlace {
  using Dot = Int8Dot<Instruction>;
  static constexpr int64_t kMostRows = kTileRows;
  // Returns whether the groups of tiles of this height lie row by row (see packed_rows.h).
  static constexpr bool takes_rows(int64_t /*tile_rows*/) { return false; }
  static constexpr int64_t kMostRefusedRows = kTileRows;  // The height of tiles that it refuses.
  static constexpr bool kInPieces = false;                // see amx_pieces-inl.h
  static bool takes_pieces(const PackedRows& /*a*/) { return false; }
  static void multiply(const PackedRows& a, int64_t t, int64_t first_k, int64_t count,
                       const Panels& w, const Sums& sums) {
    const int64_t rows = a.tile_rows(t);
    Int8Heights<Dot>::multiply(rows,
                               {.a = Dot::rows(a.words + a.int8_offset(t, first_k), rows, count),
                                .count = 0,  // each group has its own count
                                .panels = reinterpret_cast<const int32_t*>(w.words),
                                .panel_words = w.panel_words,
                                .columns = w.count * kPanel,
                                .sums = sums},
                               count);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_INT8_MATMUL_INL_H_
