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

// sum += w[0] · x[0] + ... + w[3] · x[3] in every lane; bytes of w are unsigned, those of x signed.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_SSSE3
// pmaddwd on the even bytes, widened to 16 bits, and on the odd ones.
struct WidenedDot {
  static constexpr const char* kSuffix = "";
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
struct WidenedDot {
  static constexpr const char* kSuffix = "";
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

// The one instruction that does it, as assembly: Highway does not ask the compiler for VNNI in
// these targets. Only called on CPUs that have it (see kernels.cc).
#if HWY_TARGET == HWY_AVX3
struct ByteDot {
  static constexpr const char* kSuffix = "+dot";
  static HWY_INLINE WordVector add(WordVector sum, WordVector w, WordVector x) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(w.raw), "v"(x.raw));
    return sum;
  }
};
#elif HWY_TARGET == HWY_AVX2
struct ByteDot {
  static constexpr const char* kSuffix = "+dot";
  static HWY_INLINE WordVector add(WordVector sum, WordVector w, WordVector x) {
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum.raw) : "x"(w.raw), "x"(x.raw));
    return sum;
  }
};
#else
using ByteDot = WidenedDot;
#endif

struct Int8Tile {
  const int32_t* a;
  const uint32_t* panels;
  int64_t panel_words;
  int64_t columns;  // whole panels
  int64_t k;
  Sums sums;
};

inline constexpr int64_t kScaleWords = kHalfPanel;

// sums += one group of A, `words` words per row, times Q pairs of columns; w is at their scales.
template <int R, int Q, class Dot>
HWY_INLINE void add_group(const int32_t* HWY_RESTRICT a, const uint32_t* HWY_RESTRICT const (&w)[Q],
                          int64_t words, Vector (&sums)[R][Q][2]) {
  const Floats d;
  const Words words_d;
  WordVector products[R][Q][2];
  for (int r = 0; r < R; ++r) {
    const WordVector correction = hn::Set(words_d, a[R + r]);
    for (int q = 0; q < Q; ++q) products[r][q][0] = products[r][q][1] = correction;
  }
  const int32_t* HWY_RESTRICT x_words = a + 2 * R;
  for (int64_t k = 0; k < words; ++k) {
    WordVector weights[Q][2];
    for (int q = 0; q < Q; ++q) {
      const auto* const from = reinterpret_cast<const int32_t*>(w[q] + kScaleWords + k * kPanel);
      if constexpr (R >= kPrefetchRows) hwy::Prefetch(from + kPrefetchWords);
      if constexpr (R >= kPrefetchRows) hwy::Prefetch(from + kPrefetchWords + kHalfPanel);
      weights[q][0] = hn::LoadU(words_d, from);
      weights[q][1] = hn::LoadU(words_d, from + kHalfPanel);
    }
    for (int r = 0; r < R; ++r) {
      const WordVector x = hn::Set(words_d, x_words[Interleaved::offset<R>(r, k, words)]);
      for (int q = 0; q < Q; ++q) {
        products[r][q][0] = Dot::add(products[r][q][0], weights[q][0], x);
        products[r][q][1] = Dot::add(products[r][q][1], weights[q][1], x);
      }
    }
  }
  Vector scales[Q][2];
  for (int q = 0; q < Q; ++q) Bf16Weights::load(w[q], scales[q][0], scales[q][1]);
  for (int r = 0; r < R; ++r) {
    const Vector row_scale = hn::BitCast(d, hn::Set(words_d, a[r]));
    for (int q = 0; q < Q; ++q) {
      for (int half = 0; half < 2; ++half) {
        sums[r][q][half] = hn::MulAdd(hn::ConvertTo(d, products[r][q][half]),
                                      hn::Mul(row_scale, scales[q][half]), sums[r][q][half]);
      }
    }
  }
}

template <int R, int Q, class Dot>
HWY_INLINE void multiply_int8_pairs(const Int8Tile& tile, int64_t first_pair) {
  constexpr int64_t kGroupWords = kQuantGroup / kWordBytes;
  Vector sums[R][Q][2];
  load_sums(tile.sums.init, tile.sums.init_stride, first_pair, sums);
  const int32_t* HWY_RESTRICT a = tile.a;
  const uint32_t* HWY_RESTRICT w[Q];
  for (int q = 0; q < Q; ++q) {
    const int64_t pair = first_pair + q;
    w[q] = tile.panels + pair / kPairs * tile.panel_words + pair % kPairs * kLanes;
  }
  const uint32_t* HWY_RESTRICT const(&weights)[Q] = w;
  int64_t k = 0;
  for (; k + kQuantGroup <= tile.k; k += kQuantGroup) {  // a constant number of words
    add_group<R, Q, Dot>(a, weights, kGroupWords, sums);
    a += R * (2 + kGroupWords);
    for (int q = 0; q < Q; ++q) w[q] += kScaleWords + kGroupWords * kPanel;
  }
  if (k < tile.k) {
    add_group<R, Q, Dot>(a, weights, (tile.k - k + kWordBytes - 1) / kWordBytes, sums);
  }
  store_sums(sums, first_pair, tile.sums.y, tile.sums.y_stride);
}

template <int R, class Dot>
void multiply_int8_rows(const Int8Tile& tile) {
  constexpr int kAtOnce = pairs_at_once(R);
  const int64_t pairs = tile.columns / kPanel * kPairs;
  int64_t pair = 0;
  for (; pair + kAtOnce <= pairs; pair += kAtOnce) {
    multiply_int8_pairs<R, kAtOnce, Dot>(tile, pair);
  }
  for (; pair < pairs; ++pair) multiply_int8_pairs<R, 1, Dot>(tile, pair);
}

// The int8 counterpart of FloatProduct; blocks of K are whole groups, but for the last.
template <class Dot>
struct Int8Product {
  static void multiply(const PackedRows& a, int64_t t, int64_t first_k, int64_t count,
                       const PackedMatrix& w, int64_t first_panel, int64_t panels,
                       const Sums& sums) {
    using Function = void (*)(const Int8Tile&);
    static constexpr auto kByRows = []<size_t... I>(std::index_sequence<I...>) {
      return std::array<Function, kTileRows>{&multiply_int8_rows<int{I} + 1, Dot>...};
    }
    (std::make_index_sequence<kTileRows>());
    constexpr int64_t kGroupWords = kScaleWords + kQuantGroup / kWordBytes * kPanel;
    kByRows[static_cast<size_t>(a.tile_rows(t) - 1)](
        {.a = a.quantized + a.quantized_offset(t, first_k),
         .panels = w.word_panel(first_panel) + first_k / kQuantGroup * kGroupWords,
         .panel_words = w.panel_words(),
         .columns = panels * kPanel,
         .k = count,
         .sums = sums});
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_INT8_MATMUL_INL_H_
