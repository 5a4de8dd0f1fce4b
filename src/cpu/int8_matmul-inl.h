// Products with int8 weights for one instruction set (see kernels.h, packed_matrix.h,
// packed_rows.h). Highway includes this file once per target.
//
// Per group of kQuantGroup columns of K the sum of byte products is exact in int32; it starts from
// the row's correction, is converted to fp32, scaled by row and column, and added to the fp32 sums,
// group after group. So results depend neither on tiles nor on which instructions form the sums.

#if defined(NEURONMM_CPU_INT8_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_INT8_MATMUL_INL_H_
#undef NEURONMM_CPU_INT8_MATMUL_INL_H_
#else
#define NEURONMM_CPU_INT8_MATMUL_INL_H_
#endif

#include "cpu/matmul-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

using Words = hn::RebindToSigned<Floats>;
using WordVector = hn::Vec<Words>;

// Instructions for sum += w[0] · x[0] + ... + w[3] · x[3] in every lane, x signed: what they make
// of the row's correction and of a word of the weights, which are unsigned.
struct OfUnsigned {
  static HWY_INLINE WordVector start(int32_t correction) { return hn::Set(Words(), correction); }
  static HWY_INLINE WordVector weights(WordVector w) { return w; }
};
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_SSE4
// pmaddwd on the even bytes, widened to 16 bits, and on the odd ones.
struct WidenedByteDot : OfUnsigned {
  static HWY_INLINE WordVector add(WordVector sum, WordVector w, WordVector x) {
    const Words d;
    const hn::Repartition<int16_t, Words> pairs;
    const auto w16 = hn::BitCast(pairs, w), x16 = hn::BitCast(pairs, x);
    const auto w_even = hn::And(w16, hn::Set(pairs, int16_t{0xFF}));
    const auto w_odd = hn::BitCast(
        pairs, hn::ShiftRight<8>(hn::BitCast(hn::RebindToUnsigned<decltype(pairs)>(), w)));
    auto unused = hn::Zero(d);
    sum = hn::ReorderWidenMulAccumulate(d, w_even, hn::ShiftRight<8>(hn::ShiftLeft<8>(x16)), sum,
                                        unused);
    return hn::ReorderWidenMulAccumulate(d, w_odd, hn::ShiftRight<8>(x16), sum, unused);
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

// The one instruction that does it, as assembly: Highway does not ask the compiler for VNNI (or
// NEON's dot product) in these targets. Only called on CPUs that have it (see kernels.cc).
#if HWY_TARGET == HWY_AVX3
struct OneByteDot : OfUnsigned {
  static HWY_INLINE WordVector add(WordVector sum, WordVector w, WordVector x) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(w.raw), "v"(x.raw));
    return sum;
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
struct OneByteDot {  // of signed weights: w - 128 is w with its highest bit flipped
  static HWY_INLINE WordVector start(int32_t /*correction*/) { return hn::Zero(Words()); }
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
using OneByteDot = WidenedByteDot;
#endif

// Int8 dot products as accumulate (see matmul-inl.h) wants them.
// Four bytes of a word are multiplied and added to one int32.
template <class Instruction>
struct Int8Dot {
  using Word = int32_t;
  using X = int32_t;
  using Sum = WordVector;
  static constexpr int kParts = 1, kDepth = 4, kPrefetchRows = 9;
  template <int kPart>
  static HWY_INLINE WordVector part(WordVector word) {
    return Instruction::weights(word);
  }
  static HWY_INLINE WordVector start(int32_t correction) { return Instruction::start(correction); }
  static HWY_INLINE WordVector add(WordVector sum, WordVector w, WordVector x) {
    return Instruction::add(sum, w, x);
  }
};

inline constexpr int64_t kScaleWords = kHalfPanel;
inline constexpr int64_t kGroupWords = kQuantGroup / kWordBytes;  // per row or column

// The scales of a group for the vector of columns that begins at `column` of the panel.
HWY_INLINE Vector load_scales(const int32_t* group, int64_t column) {
  const Words words;
  const WordVector pairs = hn::LoadU(words, group + column % kHalfPanel);
  return hn::BitCast(Floats(),
                     column < kHalfPanel
                         ? hn::ShiftLeft<16>(pairs)
                         : hn::And(pairs, hn::Set(words, static_cast<int32_t>(0xFFFF0000))));
}

// The one place where the exact int32 becomes fp32: every instruction set does this with the same
// operations in the same order, so that the results are the same bits.
HWY_INLINE Vector add_scaled(Vector sum, WordVector product, Vector row_scale, Vector scale) {
  return hn::MulAdd(hn::ConvertTo(Floats(), product), hn::Mul(row_scale, scale), sum);
}

// sums += one group of A, `count` words per row, times V vectors of columns from `first` on.
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
  accumulate<R, V, Dot, Interleaved>(a + 2 * R, count, w, products);
  for (int r = 0; r < R; ++r) {
    const Vector row_scale = hn::BitCast(Floats(), hn::Set(words, a[r]));
    for (int v = 0; v < V; ++v) {
      sums[r][v] = add_scaled(sums[r][v], products[r][v], row_scale, scales[v]);
    }
  }
}

// A row of A is, per group: its scale and its correction, then its words; the corrections undo the
// 128 that was added to each weight (see packed_rows.h).
template <int R, int V, class Dot>
HWY_INLINE void multiply_int8_vectors(const Tile<Dot>& tile, int64_t k, int64_t first) {
  Vector sums[R][V];
  load_sums(tile.sums, first * kLanes, sums);
  const int32_t* a = tile.a;
  const int32_t* w[V];
  for (int v = 0; v < V; ++v) w[v] = tile.panels + (first + v) / kPanelVectors * tile.panel_words;
  for (; k >= kQuantGroup; k -= kQuantGroup) {  // a constant number of words
    add_group<R, V, Dot>(a, kGroupWords, w, first, sums);
    a += R * (2 + kGroupWords);
    for (int v = 0; v < V; ++v) w[v] += kScaleWords + kGroupWords * kPanel;
  }
  if (k > 0) add_group<R, V, Dot>(a, (k + kWordBytes - 1) / kWordBytes, w, first, sums);
  store_sums(sums, first * kLanes, tile.sums);
}

// The heights 1 ... kTileRows as constants, so that all sums are registers.
template <int R, class Dot>
void multiply_int8_rows(const Tile<Dot>& tile, int64_t k) {
  for_each_vectors<R>(tile.columns, [&](auto at_once, int64_t first) HWY_ATTR {
    multiply_int8_vectors<R, at_once()>(tile, k, first);
  });
}

// The int8 counterpart of FloatProduct; blocks of K are whole groups, but for the last.
template <class Instruction>
struct Int8Product : InPlace {
  using Dot = Int8Dot<Instruction>;
  // Whether whole groups of such tiles lie row by row (see packed_rows.h).
  static constexpr bool takes_rows(int64_t /*tile_rows*/) { return false; }
  static void multiply(const PackedRows& a, int64_t t, int64_t first_k, int64_t count,
                       const Panels& w, const Sums& sums) {
    using Function = void (*)(const Tile<Dot>&, int64_t);
    static constexpr auto kByRows = []<size_t... I>(std::index_sequence<I...>) {
      return std::array<Function, kTileRows>{&multiply_int8_rows<int{I} + 1, Dot>...};
    }
    (std::make_index_sequence<kTileRows>());
    kByRows[static_cast<size_t>(a.tile_rows(t) - 1)](
        {.a = a.words + a.int8_offset(t, first_k),
         .count = 0,  // of each group its own
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
