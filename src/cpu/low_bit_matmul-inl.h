// Products with weights of 6 and 4 bits for one instruction set (see kernels.h, packed_matrix.h).
// Highway includes this file once per target.
//
// Codes become the unsigned bytes of int8 panels, and from there on nothing differs from
// int8_matmul-inl.h, so that neither do results. With few rows that happens in registers, each time
// that a word is multiplied: memory is the limit. With many, a block of panels is written as int8
// into memory that stays in cache.

#if defined(NEURONMM_CPU_LOW_BIT_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_LOW_BIT_MATMUL_INL_H_
#undef NEURONMM_CPU_LOW_BIT_MATMUL_INL_H_
#else
#define NEURONMM_CPU_LOW_BIT_MATMUL_INL_H_
#endif

#include "cpu/buffer.h"
#include "cpu/int8_matmul-inl.h"
#include "hwy/highway.h"
#include "ops/low_bit.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

// A line holds 4 rows k of kHalfPanel words, each of a column in the panel's first half and of one
// in its second. It is read by vectors of kLanes words.
inline constexpr int64_t kLineVectors = kHalfPanel / kLanes;
inline constexpr int64_t kInt8GroupWords = kScaleWords + kGroupWords * kPanel;

// Codes of 4 bits in 16-bit lanes, two neighbouring k of a column in each: byte = sc · q + 128 -
// zero. Every byte ends in 1 ... 255, so that one multiplication and one addition make both: sc · q
// of the lower does not reach the higher, and what an addition of 128 - zero < 0 borrows is paid
// back.
#if HWY_TARGET != HWY_SCALAR
template <int64_t kMultiplierRows>
struct Int4Codes {
  static constexpr int kBits = 4;
  static constexpr LowBitLayout kLayout = layout_of_int4(kMultiplierRows);
  static constexpr int64_t kLines = kMultiplierRows / kWordBytes;  // that begin() is good for
  using Pairs = hn::Repartition<uint16_t, Words>;
  using PairVector = hn::Vec<Pairs>;

  // The multipliers and zero points of both halves' columns from `line` of a group on, those of the
  // first half in the lower lane of each word.
  static HWY_INLINE void read(const int32_t* group, int64_t column, int64_t line, PairVector& sc,
                              PairVector& zero) {
    const hn::RebindToUnsigned<Words> words;
    const Pairs pairs;
    const auto* const stored = reinterpret_cast<const uint16_t*>(group + kScaleWords) +
                               line / kLines * kHalfPanel + column;
    auto both = hn::PromoteTo(words, hn::LoadU(hn::Rebind<uint16_t, decltype(words)>(), stored));
    both = hn::And(hn::Or(both, hn::ShiftLeft<8>(both)), hn::Set(words, 0x00FF00FFu));
    const PairVector bytes = hn::BitCast(pairs, both);
    sc = hn::Add(hn::And(bytes, hn::Set(pairs, uint16_t{15})), hn::Set(pairs, uint16_t{1}));
    const PairVector zz = hn::Add(hn::ShiftRight<4>(bytes), hn::Set(pairs, uint16_t{8}));
    zero = hn::ShiftRight<1>(hn::Mul(sc, zz));
  }
  HWY_INLINE void begin(const int32_t* group, int64_t column, int64_t line) {
    const Pairs pairs;
    PairVector sc, zero;
    read(group, column, line, sc, zero);
    const PairVector start =
        hn::Mul(hn::Sub(hn::Set(pairs, uint16_t{128}), zero), hn::Set(pairs, uint16_t{257}));
    split(sc, multiplier);
    split(start, offset);
  }

  // The bytes of line kLine (0 or 1) of kRows rows that begin at `lines`, of both halves' columns.
  template <int kLine>
  HWY_INLINE void expand(const int32_t* lines, int64_t column, WordVector (&w)[2]) const {
    const Words words;
    const Pairs pairs;
    const PairVector codes =
        hn::BitCast(pairs, hn::LoadU(words, lines + kLine * kLineWords + column));
    const PairVector mask = hn::Set(pairs, uint16_t{0x0F0F});
    const PairVector first = hn::And(codes, mask);
    const PairVector second = hn::And(hn::ShiftRight<4>(codes), mask);
    w[0] = hn::BitCast(words, hn::Add(hn::Mul(first, multiplier[0]), offset[0]));
    w[1] = hn::BitCast(words, hn::Add(hn::Mul(second, multiplier[1]), offset[1]));
  }

  // The lower lanes of pairs twice, and the higher ones.
  static HWY_INLINE void split(PairVector of, PairVector (&halves)[2]) {
    const hn::RebindToUnsigned<Words> words;
    const Pairs pairs;
    const auto both = hn::BitCast(words, of);
    halves[0] = hn::OddEven(hn::BitCast(pairs, hn::ShiftLeft<16>(both)), of);
    halves[1] = hn::OddEven(of, hn::BitCast(pairs, hn::ShiftRight<16>(both)));
  }

  PairVector multiplier[2], offset[2];
};

#else
// Without vectors four bytes at a time, in the same way.
template <int64_t kMultiplierRows>
struct Int4Codes {
  static constexpr int kBits = 4;
  static constexpr LowBitLayout kLayout = layout_of_int4(kMultiplierRows);
  static constexpr int64_t kLines = kMultiplierRows / kWordBytes;

  void begin(const int32_t* group, int64_t column, int64_t line) {
    const auto* const stored =
        reinterpret_cast<const uint8_t*>(group + kScaleWords) + line / kLines * kPanel + 2 * column;
    for (int half = 0; half < 2; ++half) {
      const ops::GroupOf4Bits of = ops::GroupOf4Bits::of(stored[half]);
      multiplier[half] = static_cast<uint32_t>(of.sc);
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

  uint32_t multiplier[2], offset[2];
};
#endif

// Codes of 6 bits: byte = q + 96, which is q - 32 + 128.
struct Int6Codes {
  static constexpr int kBits = 6;
  static constexpr LowBitLayout kLayout = kLayoutOfInt6;
  static constexpr int64_t kLines = kQuantGroup / kWordBytes;

  HWY_INLINE void begin(const int32_t* /*group*/, int64_t /*column*/, int64_t /*line*/) {}
  template <int kLine>
  HWY_INLINE void expand(const int32_t* lines, int64_t column, WordVector (&w)[2]) const {
    const Words words;
    const WordVector low = hn::LoadU(words, lines + kLine * kLineWords + column);
    const WordVector high = hn::LoadU(words, lines + 2 * kLineWords + column);
    const WordVector low_mask = hn::Set(words, 0x0F0F0F0F), high_mask = hn::Set(words, 0x30303030);
    const WordVector offset = hn::Set(words, 0x60606060);
    const WordVector first = kLine == 0 ? hn::ShiftLeft<4>(high) : high;
    const WordVector second = kLine == 0 ? hn::ShiftLeft<2>(high) : hn::ShiftRight<2>(high);
    w[0] = hn::Add(hn::Or(hn::And(low, low_mask), hn::And(first, high_mask)), offset);
    w[1] = hn::Add(hn::Or(hn::And(hn::ShiftRight<4>(low), low_mask), hn::And(second, high_mask)),
                   offset);
  }
};

// From so many rows on asking for the weights ahead pays. Measured on Zen 4, two cores, weights in
// memory, in turns with int8, how many times faster 4 bits were in six runs without it and six with
// it: one row 1.3 to 1.7 and 1.2 to 1.4, two rows 1.3 to 1.7 and 1.1 to 1.5, four rows alike.
inline constexpr int kLowBitPrefetchRows = 5;

// Asks for the words that a read of these by R rows will come to: kPrefetchWords on.
template <int R>
HWY_INLINE void prefetch_after(const int32_t* words, int64_t count) {
  if constexpr (R < kLowBitPrefetchRows) return;
  for (int64_t i = 0; i < count; i += kLineWords) hwy::Prefetch(words + i + kPrefetchWords);
}

// Vectors of lines that are expanded at once; each is two of sums.
constexpr int lines_at_once(int rows) { return vectors_at_once(rows) / 2; }

// products <- one group of A, `count` words per row, times P vectors of words at `column` of a
// line, as the sums of int8 weights are.
template <int R, int P, class Codes, class Dot>
HWY_INLINE void dot_bytes(const int32_t* HWY_RESTRICT a, int64_t count,
                          const int32_t* const (&group)[P], const int64_t (&column)[P],
                          WordVector (&products)[R][2 * P]) {
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < 2 * P; ++v) products[r][v] = Dot::start(a[R + r]);
  }
  const int32_t* HWY_RESTRICT x = a + 2 * R;
  Codes codes[P];
  const auto add_line = [&](auto line, int64_t i) HWY_ATTR {
    WordVector w[P][2];
    for (int p = 0; p < P; ++p) {
      const int32_t* const lines =
          group[p] + Codes::kLayout.first_line() + i / 2 * Codes::kLayout.lines_words;
      prefetch_after<R>(lines + line() * kLineWords, kLineWords);
      if (line() == 0) {
        prefetch_after<R>(lines + 2 * kLineWords, Codes::kLayout.lines_words - 2 * kLineWords);
      }
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
      if (i + 1 < last) add_line(std::integral_constant<int, 1>(), i + 1);
    }
  }
}

// With one row the instructions that expand a line are more than memory waits for. Then codes are
// multiplied as they are, and every 16 rows k sc · (sum of q · x) - zero · (sum of x) is added: the
// same integer. |sums| <= 30,480, so that one instruction for pairs of 16 bits makes both products.
// Measured on Zen 4, one core, in cache, GB/s of groups of 16: one row 28 -> 34, two rows 24 -> 24;
// of groups of 32 one row 32 -> 32, two rows 26 -> 23.
#if HWY_TARGET == HWY_AVX3
inline constexpr int kRowsOfCodes = 1;

template <int R, int P, class Codes, class Dot>
HWY_INLINE void dot_codes(const int32_t* HWY_RESTRICT a, int64_t count,
                          const int32_t* const (&group)[P], const int64_t (&column)[P],
                          WordVector (&products)[R][2 * P]) {
  constexpr int64_t kLines = 4;  // 16 rows k
  const Words words;
  const hn::RebindToUnsigned<Words> unsigned_words;
  const typename Codes::Pairs pairs;
  const hn::RebindToSigned<typename Codes::Pairs> signed_pairs;
  const WordVector ones = hn::Set(words, 0x01010101), mask = hn::Set(words, 0x0F0F0F0F);
  const int32_t* HWY_RESTRICT x = a + 2 * R;
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < 2 * P; ++v) products[r][v] = hn::Zero(words);
  }
  for (int64_t first = 0; first < count; first += kLines) {
    WordVector of_codes[R][2 * P], of_x[R];
    for (int r = 0; r < R; ++r) {
      of_x[r] = hn::Zero(words);
      for (int v = 0; v < 2 * P; ++v) of_codes[r][v] = hn::Zero(words);
    }
    const int64_t last = std::min(count, first + kLines);
    for (int64_t i = first; i < last; ++i) {
      WordVector w[P][2];
      for (int p = 0; p < P; ++p) {
        const int32_t* const line = group[p] + Codes::kLayout.first_line() + i * kLineWords;
        prefetch_after<R>(line, kLineWords);
        const WordVector codes = hn::LoadU(words, line + column[p]);
        w[p][0] = hn::And(codes, mask);
        w[p][1] = hn::And(hn::ShiftRight<4>(codes), mask);
      }
      for (int r = 0; r < R; ++r) {
        const WordVector value = hn::Set(words, x[Interleaved::offset<R>(r, i, count)]);
        of_x[r] = Dot::add(of_x[r], ones, value);
        for (int v = 0; v < 2 * P; ++v) {
          of_codes[r][v] = Dot::add(of_codes[r][v], w[v / 2][v % 2], value);
        }
      }
    }
    for (int p = 0; p < P; ++p) {
      typename Codes::PairVector sc, zero;
      Codes::read(group[p], column[p], first, sc, zero);
      const auto minus_zero = hn::Sub(hn::Zero(pairs), zero);
      const auto sc_words = hn::BitCast(unsigned_words, sc);
      const auto zero_words = hn::BitCast(unsigned_words, minus_zero);
      const typename Codes::PairVector factors[2] = {
          hn::OddEven(hn::BitCast(pairs, hn::ShiftLeft<16>(zero_words)), sc),
          hn::OddEven(minus_zero, hn::BitCast(pairs, hn::ShiftRight<16>(sc_words)))};
      for (int r = 0; r < R; ++r) {
        const auto x_pairs = hn::BitCast(pairs, hn::ShiftLeft<16>(of_x[r]));
        for (int half = 0; half < 2; ++half) {
          const int v = 2 * p + half;
          const auto both = hn::OddEven(x_pairs, hn::BitCast(pairs, of_codes[r][v]));
          auto unused = hn::Zero(words);
          products[r][v] = hn::ReorderWidenMulAccumulate(words, hn::BitCast(signed_pairs, both),
                                                         hn::BitCast(signed_pairs, factors[half]),
                                                         products[r][v], unused);
        }
      }
    }
  }
}
#else
inline constexpr int kRowsOfCodes = 0;
#endif

// sums += the same, scaled.
template <int R, int P, class Codes, class Dot>
HWY_INLINE void add_low_bit_group(const int32_t* HWY_RESTRICT a, int64_t count,
                                  const int32_t* const (&group)[P], const int64_t (&column)[P],
                                  Vector (&sums)[R][2 * P]) {
  WordVector products[R][2 * P];
  if constexpr (Codes::kBits == 4 && R <= kRowsOfCodes) {
    dot_codes<R, P, Codes, Dot>(a, count, group, column, products);
  } else {
    dot_bytes<R, P, Codes, Dot>(a, count, group, column, products);
  }
  for (int p = 0; p < P; ++p) prefetch_after<R>(group[p], Codes::kLayout.first_line());
  for (int v = 0; v < 2 * P; ++v) {
    const Vector scale = load_scales(group[v / 2], column[v / 2] + v % 2 * kHalfPanel);
    for (int r = 0; r < R; ++r) {
      const Vector row_scale = hn::BitCast(Floats(), hn::Set(Words(), a[r]));
      sums[r][v] = add_scaled(sums[r][v], products[r][v], row_scale, scale);
    }
  }
}

// P vectors of lines, counted over all panels of a tile, from `first` on.
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
  for (; k >= kQuantGroup; k -= kQuantGroup) {  // a constant number of words
    add_low_bit_group<R, P, Codes, Dot>(a, kGroupWords, w, column, sums);
    a += R * (2 + kGroupWords);
    for (int p = 0; p < P; ++p) w[p] += Codes::kLayout.words(kQuantGroup);
  }
  if (k > 0) {
    add_low_bit_group<R, P, Codes, Dot>(a, (k + kWordBytes - 1) / kWordBytes, w, column, sums);
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < 2 * P; ++v) {
      hn::StoreU(sums[r][v], Floats(), tile.sums.y + r * tile.sums.y_stride + y_column[v]);
    }
  }
}

template <int R, class Codes, class Dot>
void multiply_low_bit_rows(const Tile<Dot>& tile, int64_t k) {
  constexpr int kAtOnce = lines_at_once(R), kRest = std::min<int>(kAtOnce, kLineVectors);
  const int64_t lines = tile.columns / kPanel * kLineVectors;
  int64_t first = 0;
  for (; first + kAtOnce <= lines; first += kAtOnce) {
    multiply_lines<R, kAtOnce, Codes, Dot>(tile, k, first);
  }
  for (; first < lines; first += kRest) multiply_lines<R, kRest, Codes, Dot>(tile, k, first);
}

// For few rows: the counterpart of Int8Product that expands in registers.
template <class Codes, class ByteDot>
struct LowBitProduct : InPlace {
  using Dot = ByteDot;
  static void multiply(const PackedRows& a, int64_t t, int64_t first_k, int64_t count,
                       const Panels& w, const Sums& sums) {
    using Function = void (*)(const Tile<Dot>&, int64_t);
    static constexpr auto kByRows = []<size_t... I>(std::index_sequence<I...>) {
      return std::array<Function, kTileRows>{&multiply_low_bit_rows<int{I} + 1, Codes, Dot>...};
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

// One group of `rows` rows k of a panel as an int8 panel has it.
template <class Codes>
void expand_group(const int32_t* HWY_RESTRICT group, int64_t rows, int32_t* HWY_RESTRICT to) {
  const Words words;
  for (int64_t i = 0; i < kScaleWords; i += kLanes) {
    hn::StoreU(hn::LoadU(words, group + i), words, to + i);
  }
  prefetch_after<kTileRows>(group, Codes::kLayout.words(rows));
  to += kScaleWords;
  const int64_t count = (rows + LowBitLayout::kRows - 1) / LowBitLayout::kRows * 2;
  for (int64_t column = 0; column < kHalfPanel; column += kLanes) {
    for (int64_t first = 0; first < count; first += Codes::kLines) {
      Codes codes;
      codes.begin(group, column, first);
      const int64_t last = std::min(count, first + Codes::kLines);
      for (int64_t i = first; i < last; i += 2) {
        const int32_t* const lines =
            group + Codes::kLayout.first_line() + i / 2 * Codes::kLayout.lines_words;
        int32_t* const line = to + i * kPanel + column;
        WordVector w[2];
        codes.template expand<0>(lines, column, w);
        hn::StoreU(w[0], words, line);
        hn::StoreU(w[1], words, line + kHalfPanel);
        codes.template expand<1>(lines, column, w);
        hn::StoreU(w[0], words, line + kPanel);
        hn::StoreU(w[1], words, line + kPanel + kHalfPanel);
      }
    }
  }
}

// For many rows: ByteProduct of panels that are expanded once per block of K into memory of the
// thread.
template <class Codes, class ByteProduct>
struct ExpandedProduct : ByteProduct {
  static Panels block(const PackedMatrix& w, const ProductPart& part, int64_t first_k,
                      int64_t count) {
    thread_local Buffer<uint32_t> expanded;
    const int64_t panel_words = (count + kQuantGroup - 1) / kQuantGroup * kInt8GroupWords;
    uint32_t* to = expanded.reserve(part.panels * panel_words);
    const Panels packed = InPlace::block(w, part, first_k, count);
    for (int64_t panel = 0; panel < part.panels; ++panel) {
      const auto* from =
          reinterpret_cast<const int32_t*>(packed.words + panel * packed.panel_words);
      for (int64_t k = 0; k < count; k += kQuantGroup, to += kInt8GroupWords) {
        expand_group<Codes>(from, std::min(kQuantGroup, count - k), reinterpret_cast<int32_t*>(to));
        from += Codes::kLayout.words(kQuantGroup);
      }
    }
    return {expanded.data(), panel_words, part.panels};
  }
};

// From so many tiles of rows on writing the bytes once costs less than expanding them for each
// tile. Measured on Zen 4, one core, in cache, as shares of int8's speed: 4 bits in registers 0.88
// to 0.92 at 16 to 36 rows, expanded 0.94 at 48, 0.95 at 64 and 0.97 at 128.
inline constexpr int64_t kExpandedTiles = 4;

template <class Codes, class ByteProduct>
void multiply_low_bit(const PackedRows& a, const PackedMatrix& w, const ProductPart& part,
                      const float* bias, MutableMatrixView y) {
  const int64_t highest = (a.rows + a.tiles - 1) / a.tiles;
  if (part.tiles < kExpandedTiles && !ByteProduct::takes_rows(highest)) {
    return multiply_part<LowBitProduct<Codes, typename ByteProduct::Dot>>(a, w, part, bias, y);
  }
  multiply_part<ExpandedProduct<Codes, ByteProduct>>(a, w, part, bias, y);
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_LOW_BIT_MATMUL_INL_H_
