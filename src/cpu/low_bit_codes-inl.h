// The contents of weights of 6 and 4 bits, for one instruction set: codes, multipliers and zero
// points in their packed form (packed_matrix.h), and the forms that a block of them is expanded to.
// Highway includes this file once per target.

#if defined(NEURONMM_CPU_LOW_BIT_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_LOW_BIT_CODES_INL_H_
#undef NEURONMM_CPU_LOW_BIT_CODES_INL_H_
#else
#define NEURONMM_CPU_LOW_BIT_CODES_INL_H_
#endif

#include "cpu/int8_matmul-inl.h"
#include "cpu/prefetch.h"
#include "hwy/highway.h"
#include "ops/low_bit.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

// A line holds 4 rows k as kHalfPanel words. Each word has a column of the panel's first half and
// one of its second half. A line is read in vectors of kLanes words.
inline constexpr int64_t kLineVectors = kHalfPanel / kLanes;
inline constexpr int64_t kInt8GroupWords = kScaleWords + kGroupWords * kPanel;

// Prefetches the words that reads will reach later: those kPrefetchWords after `words`.
HWY_INLINE void prefetch_after(const int32_t* words, int64_t count) {
  for (int64_t i = 0; i < count; i += kLineWords) hwy::Prefetch(words + i + kPrefetchWords);
}

// Returns whether products of R rows prefetch codes: from kCodePrefetchRows rows on.
template <int R, class Codes, class Dot>
constexpr bool asks_ahead() {
  return Codes::kInMemory && R >= Dot::kCodePrefetchRows;
}
template <int R, int kLine, class Codes, class Dot>
HWY_INLINE void prefetch_line(const int32_t* lines) {
  if constexpr (asks_ahead<R, Codes, Dot>()) {
    lines += kLine / 2 * Codes::kLayout.lines_words;
    prefetch_after(lines + kLine % 2 * kLineWords, kLineWords);
    const int64_t more = Codes::kLayout.lines_words - 2 * kLineWords;
    if (kLine % 2 == 0) prefetch_after(lines + 2 * kLineWords, more);
  }
}
template <int R, class Codes, class Dot>
HWY_INLINE void prefetch_factors(const int32_t* group) {
  if constexpr (asks_ahead<R, Codes, Dot>()) prefetch_after(group, Codes::kLayout.first_line());
}

// Returns the differences of the bytes of a and b, modulo 256.
HWY_INLINE WordVector subtract_bytes(WordVector a, WordVector b) {
#if HWY_TARGET == HWY_SCALAR
  const auto x = static_cast<uint32_t>(hn::GetLane(a)), y = static_cast<uint32_t>(hn::GetLane(b));
  constexpr uint32_t kHighest = 0x80808080;  // no borrow passes them
  const uint32_t lower = (x | kHighest) - (y & ~kHighest);
  return hn::Set(Words(), static_cast<int32_t>(lower ^ ((x ^ ~y) & kHighest)));
#else
  const hn::Repartition<int8_t, Words> bytes;
  return hn::BitCast(Words(), hn::Sub(hn::BitCast(bytes, a), hn::BitCast(bytes, b)));
#endif
}

// Codes of 4 bits in 16-bit lanes, two neighbouring k of a column in each: byte = sc · q + 128 -
// zero. Every byte ends in 1 ... 255. One multiplication and one addition therefore compute both
// bytes: sc · q of the lower byte does not reach the higher one. If 128 - zero is negative, the
// addition borrows from the higher byte, but the sum restores it.
#if HWY_TARGET != HWY_SCALAR
template <int64_t kMultiplierRows>
struct Int4Codes {
  static constexpr int kBits = 4;
  static constexpr bool kInMemory = true;
  static constexpr LowBitLayout kLayout = layout_of_int4(kMultiplierRows);
  static constexpr int64_t kWordsOfGroup = kLayout.words(kQuantGroup);
  // The number of lines for which one begin() is valid.
  static constexpr int64_t kLines = kMultiplierRows / kWordBytes;

  // The implicit constructor would be compiled for any CPU, and the compiler refuses that for
  // NEON's vectors.
  HWY_INLINE Int4Codes() {}

  // Reads the multipliers and zero points of both halves' columns from `line` of a group on. The
  // lower lane of each word belongs to the first half.
  static HWY_INLINE void read(const int32_t* group, int64_t column, int64_t line, PairVector& sc,
                              PairVector& zero) {
    const hn::RebindToUnsigned<Words> words;
    const Pairs pairs;
    const auto* const stored = reinterpret_cast<const uint16_t*>(group + kScaleWords) +
                               line / kLines * kHalfPanel + column;
    auto both = hn::PromoteTo(words, hn::LoadU(hn::Rebind<uint16_t, decltype(words)>(), stored));
    both = hn::And(hn::Or(both, hn::ShiftLeft<8>(both)), hn::Set(words, 0x00FF00FFu));
    const PairVector bytes = hn::BitCast(pairs, both);
    sc = hn::Add(hn::And(bytes, hn::Set(pairs, int16_t{15})), hn::Set(pairs, int16_t{1}));
    const PairVector zz = hn::Add(hn::ShiftRight<4>(bytes), hn::Set(pairs, int16_t{8}));
    zero = hn::ShiftRight<1>(hn::Mul(sc, zz));
  }
  HWY_INLINE void begin(const int32_t* group, int64_t column, int64_t line) {
    const Pairs pairs;
    PairVector sc, zero;
    read(group, column, line, sc, zero);
    const PairVector start =
        hn::Mul(hn::Sub(hn::Set(pairs, int16_t{128}), zero), hn::Set(pairs, int16_t{257}));
    join(sc, sc, multiplier);
    join(start, start, offset);
  }

  // Reads the codes of line kLine, counted from `lines` on, for the columns of both halves.
  template <int kLine>
  static HWY_INLINE void codes(const int32_t* lines, int64_t column, WordVector (&q)[2]) {
    const WordVector both = hn::LoadU(Words(), lines + kLine * kLineWords + column);
    const WordVector mask = hn::Set(Words(), 0x0F0F0F0F);
    q[0] = hn::And(both, mask);
    q[1] = hn::And(hn::ShiftRight<4>(both), mask);
  }
  // Reads the same codes as bytes.
  template <int kLine>
  HWY_INLINE void expand(const int32_t* lines, int64_t column, WordVector (&w)[2]) const {
    codes<kLine>(lines, column, w);
    for (int half = 0; half < 2; ++half) {
      const PairVector q = hn::BitCast(Pairs(), w[half]);
      w[half] = hn::BitCast(Words(), hn::Add(hn::Mul(q, multiplier[half]), offset[half]));
    }
  }

  // The bytes of the columns of both halves with a sign: sc · q - zero. Their differences are
  // formed byte by byte.
  struct Signed {
    HWY_INLINE Signed() {}
    // Sets the multipliers and zero points of kLines lines from `line` on.
    HWY_INLINE void begin(const int32_t* group, int64_t column, int64_t line) {
      const Pairs pairs;
      const hn::Rebind<uint8_t, Pairs> stored;
      const auto* const from = reinterpret_cast<const uint8_t*>(group + kScaleWords) +
                               line / kLines * kPanel + 2 * column;
      const PairVector both = hn::PromoteTo(pairs, hn::LoadU(stored, from));
      const PairVector sc =
          hn::Add(hn::And(both, hn::Set(pairs, int16_t{15})), hn::Set(pairs, int16_t{1}));
      const PairVector zz = hn::Add(hn::ShiftRight<4>(both), hn::Set(pairs, int16_t{8}));
      const PairVector zeros = hn::ShiftRight<1>(hn::Mul(sc, zz));
      for (int half = 0; half < 2; ++half) {
        multiplier[half] = spread(sc, kSpreadPairs[half]);
        zero[half] = spread(zeros, kSpreadBytes[half]);
      }
    }
    template <int kLine>
    HWY_INLINE void expand(const int32_t* lines, int64_t column, WordVector (&w)[2]) const {
      codes<kLine>(lines, column, w);
      for (int half = 0; half < 2; ++half) {
        const auto product = hn::Mul(hn::BitCast(Pairs(), w[half]), multiplier[half]);
        w[half] = subtract_bytes(hn::BitCast(Words(), product), hn::BitCast(Words(), zero[half]));
      }
    }
    // A word of 32 bits gets bytes of the same word.
    static HWY_INLINE PairVector spread(PairVector from, const uint8_t (&order)[16]) {
      const hn::Repartition<uint8_t, Words> bytes;
      return hn::BitCast(
          Pairs(), hn::TableLookupBytes(hn::BitCast(bytes, from), hn::LoadDup128(bytes, order)));
    }
    HWY_ALIGN static constexpr uint8_t kSpreadPairs[2][16] = {
        {0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13},
        {2, 3, 2, 3, 6, 7, 6, 7, 10, 11, 10, 11, 14, 15, 14, 15}};
    HWY_ALIGN static constexpr uint8_t kSpreadBytes[2][16] = {
        {0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12},
        {2, 2, 2, 2, 6, 6, 6, 6, 10, 10, 10, 10, 14, 14, 14, 14}};

    PairVector multiplier[2], zero[2];
  };

  // Interleaves a and b: halves[0] takes the even lanes of both, halves[1] the odd lanes.
  static HWY_INLINE void join(PairVector a, PairVector b, PairVector (&halves)[2]) {
    const hn::RebindToUnsigned<Words> words;
    const Pairs pairs;
    const auto low_b = hn::BitCast(pairs, hn::ShiftLeft<16>(hn::BitCast(words, b)));
    const auto high_a = hn::BitCast(pairs, hn::ShiftRight<16>(hn::BitCast(words, a)));
    halves[0] = hn::OddEven(low_b, a);
    halves[1] = hn::OddEven(b, high_a);
  }

  // The factors of sums over the 32 rows k from one line on, for the columns of both halves. The
  // sum of q · x in group g is multiplied by of[g], which has the multiplier twice in each word.
  // The sums of x over the first and the last 16 rows are multiplied by of[kGroups], which is
  // -zero.
  struct Factors {
    static constexpr int kGroups = 32 / kMultiplierRows;
    HWY_INLINE Factors() {}
    PairVector of[kGroups + 1][2];
  };
  static HWY_INLINE Factors factors(const int32_t* group, int64_t column, int64_t line) {
    constexpr int kGroups = Factors::kGroups;
    Factors f;
    PairVector sc, zero[kGroups];
    for (int g = 0; g < kGroups; ++g) {
      read(group, column, line + g * kLines, sc, zero[g]);
      join(sc, sc, f.of[g]);
    }
    join(hn::Neg(zero[0]), hn::Neg(zero[kGroups - 1]), f.of[kGroups]);
    return f;
  }
  static const int32_t* lines(const int32_t* group, int64_t /*column*/, int64_t line) {
    return group + kLayout.first_line() + line / 2 * kLayout.lines_words;
  }

  PairVector multiplier[2], offset[2];
};

#else
// Bytes with a sign, made of bytes + 128.
template <class Codes>
struct SignedByFlipping : Codes {
  template <int kLine>
  void expand(const int32_t* lines, int64_t column, WordVector (&w)[2]) const {
    Codes::template expand<kLine>(lines, column, w);
    for (WordVector& half : w) half = subtract_bytes(half, hn::Set(Words(), -0x7F7F7F80));
  }
};

// Without vectors, four bytes are processed at a time in the same way.
template <int64_t kMultiplierRows>
struct Int4Codes {
  static constexpr int kBits = 4;
  static constexpr bool kInMemory = true;
  static constexpr LowBitLayout kLayout = layout_of_int4(kMultiplierRows);
  static constexpr int64_t kWordsOfGroup = kLayout.words(kQuantGroup);
  static constexpr int64_t kLines = kMultiplierRows / kWordBytes;

  void begin(const int32_t* group, int64_t column, int64_t line) {
    const auto* const stored =
        reinterpret_cast<const uint8_t*>(group + kScaleWords) + line / kLines * kPanel + 2 * column;
    for (int half = 0; half < 2; ++half) {
      const ops::GroupOf4Bits of = ops::GroupOf4Bits::of(stored[half]);
      multiplier[half] = static_cast<uint32_t>(of.multiplier);
      offset[half] = 0x01010101u * static_cast<uint32_t>(128 - of.zero());
    }
  }
  template <int kLine>
  void expand(const int32_t* lines, int64_t column, WordVector (&w)[2]) const {
    const auto codes = static_cast<uint32_t>(lines[kLine * kLineWords + column]);
    for (int half = 0; half < 2; ++half) {
      const uint32_t bytes = (codes >> 4 * half & 0x0F0F0F0F) * multiplier[half] + offset[half];
      w[half] = hn::Set(Words(), static_cast<int32_t>(bytes));
    }
  }

  static const int32_t* lines(const int32_t* group, int64_t /*column*/, int64_t line) {
    return group + kLayout.first_line() + line / 2 * kLayout.lines_words;
  }
  using Signed = SignedByFlipping<Int4Codes>;

  uint32_t multiplier[2], offset[2];
};
#endif

// Codes of 6 bits: byte = q + 96, which is q - 32 + 128.
struct Int6Codes {
  static constexpr int kBits = 6;
  static constexpr bool kInMemory = true;
  static constexpr LowBitLayout kLayout = kLayoutOfInt6;
  static constexpr int64_t kWordsOfGroup = kLayout.words(kQuantGroup);
  static constexpr int64_t kLines = kQuantGroup / kWordBytes;

  HWY_INLINE void begin(const int32_t* /*group*/, int64_t /*column*/, int64_t /*line*/) {}
  template <int kLine>
  static HWY_INLINE void codes(const int32_t* lines, int64_t column, WordVector (&q)[2]) {
    const Words words;
    const int32_t* const from = lines + kLine / 2 * kLayout.lines_words + column;
    const WordVector low = hn::LoadU(words, from + kLine % 2 * kLineWords);
    const WordVector high = hn::LoadU(words, from + 2 * kLineWords);
    const WordVector low_mask = hn::Set(words, 0x0F0F0F0F), high_mask = hn::Set(words, 0x30303030);
    const WordVector first = kLine % 2 == 0 ? hn::ShiftLeft<4>(high) : high;
    const WordVector second = kLine % 2 == 0 ? hn::ShiftLeft<2>(high) : hn::ShiftRight<2>(high);
    q[0] = hn::Or(hn::And(low, low_mask), hn::And(first, high_mask));
    q[1] = hn::Or(hn::And(hn::ShiftRight<4>(low), low_mask), hn::And(second, high_mask));
  }
  template <int kLine>
  HWY_INLINE void expand(const int32_t* lines, int64_t column, WordVector (&w)[2]) const {
    codes<kLine>(lines, column, w);
    for (WordVector& half : w) half = hn::Add(half, hn::Set(Words(), 0x60606060));
  }
  struct Signed {
    HWY_INLINE void begin(const int32_t* /*group*/, int64_t /*column*/, int64_t /*line*/) {}
    template <int kLine>
    HWY_INLINE void expand(const int32_t* lines, int64_t column, WordVector (&w)[2]) const {
      codes<kLine>(lines, column, w);
      for (WordVector& half : w) half = subtract_bytes(half, hn::Set(Words(), 0x20202020));
    }
  };
  static const int32_t* lines(const int32_t* group, int64_t /*column*/, int64_t line) {
    return group + kLayout.first_line() + line / 2 * kLayout.lines_words;
  }
};

// Stores the columns of both halves of two lines. `line_words` and `half_words` are the distances
// between lines and between halves.
HWY_INLINE void store_lines(const WordVector (&w)[2][2], int64_t line_words, int64_t half_words,
                            int32_t* to) {
  for (int line = 0; line < 2; ++line) {
    for (int half = 0; half < 2; ++half) {
      hn::StoreU(w[line][half], Words(), to + line * line_words + half * half_words);
    }
  }
}

constexpr int64_t lines_of(int64_t rows) {
  return (rows + LowBitLayout::kRows - 1) / LowBitLayout::kRows * 2;
}

// Expands lines [first, end) of a group to bytes, in the order of an int8 panel: those + 128 if
// `As` is Codes, and signed ones if it is Codes::Signed.
template <class Codes, class As = Codes>
HWY_INLINE void expand_lines(const int32_t* HWY_RESTRICT group, int64_t first, int64_t end,
                             int32_t* HWY_RESTRICT to) {
  for (int64_t column = 0; column < kHalfPanel; column += kLanes) {
    for (int64_t begin = first; begin < end; begin += Codes::kLines) {
      As codes;
      codes.begin(group, column, begin);
      const int64_t last = std::min(end, begin + Codes::kLines);
      for (int64_t i = begin; i < last; i += 2) {
        const int32_t* const lines = Codes::lines(group, column, i);
        WordVector w[2][2];
        codes.template expand<0>(lines, column, w[0]);
        codes.template expand<1>(lines, column, w[1]);
        store_lines(w, kPanel, kHalfPanel, to + i * kPanel + column);
      }
    }
  }
}

// A block of panels that is multiplied as bytes. Its groups have the layout of int8 panels.
template <class Codes>
struct AsBytes {
  static constexpr int64_t kWordsOfGroup = kInt8GroupWords;

  static void expand(const int32_t* HWY_RESTRICT group, int64_t rows, int32_t* HWY_RESTRICT to) {
    to = std::copy_n(group, kScaleWords, to);
    expand_lines<Codes>(group, 0, lines_of(rows), to);
  }
};

// A block of panels of 6 bits that is multiplied as codes. A group consists of its scales and then,
// for each vector of both halves' columns, its lines of codes in bytes. Each vector's lines are
// read from start to end.
template <class Codes>
struct AsCodes {
  static constexpr int kBits = Codes::kBits;
  static constexpr bool kInMemory = false;
  static constexpr int64_t kWordsOfGroup = kInt8GroupWords;
  static constexpr int64_t kStride = 2 * kLanes;  // words from one line to the next

  static const int32_t* lines(const int32_t* group, int64_t column, int64_t line) {
    return group + kScaleWords + 2 * column * kGroupWords + line * kStride;
  }
  template <int kLine>
  static HWY_INLINE void codes(const int32_t* lines, int64_t /*column*/, WordVector (&q)[2]) {
    for (int half = 0; half < 2; ++half) {
      q[half] = hn::LoadU(Words(), lines + kLine * kStride + half * kLanes);
    }
  }
  static void expand(const int32_t* HWY_RESTRICT group, int64_t rows, int32_t* HWY_RESTRICT to) {
    std::copy_n(group, kScaleWords, to);
    for (int64_t column = 0; column < kHalfPanel; column += kLanes) {
      for (int64_t i = 0; i < lines_of(rows); i += 2) {
        WordVector q[2][2];
        Codes::template codes<0>(Codes::lines(group, column, i), column, q[0]);
        Codes::template codes<1>(Codes::lines(group, column, i), column, q[1]);
        store_lines(q, kStride, kLanes, const_cast<int32_t*>(lines(to, column, i)));
      }
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_LOW_BIT_CODES_INL_H_
