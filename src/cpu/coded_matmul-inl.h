// Products with coded weights for one instruction set (see base/coded_values.h, coded_layout.h).
// Highway includes this file once per target.
//
// Some rows k of some panels are expanded to fp32, or to bf16 if the CPU has products of bf16, in
// memory of the thread. They stay in cache and are multiplied as weights of fp32 and bf16 are. In
// fp32 they have the values of CodedValues::read(), bit for bit. In bf16 they have these values,
// rounded to nearest even, if scales are fp16 or bf16 and zero points are integers. Otherwise a sum
// in fp32 may move a value by 2^-12 of its scale before it is rounded.

#if defined(NEURONMM_CPU_CODED_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_CODED_MATMUL_INL_H_
#undef NEURONMM_CPU_CODED_MATMUL_INL_H_
#else
#define NEURONMM_CPU_CODED_MATMUL_INL_H_
#endif

#include "cpu/amx_pieces-inl.h"
#include "cpu/bf16_pairs-inl.h"
#include "cpu/buffer.h"
#include "cpu/low_bit_codes-inl.h"
#include "cpu/matmul-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

using Bits = hn::RebindToUnsigned<Floats>;
using BitVector = hn::Vec<Bits>;

HWY_INLINE Vector load_fp16(const uint8_t* from) {
  const hn::Rebind<hwy::float16_t, Floats> halves;
  return hn::PromoteTo(Floats(), hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(from)));
}

// Loads the scales or offsets of some columns of a group.
HWY_INLINE Vector load_numbers(const CodedNumbers& numbers, int64_t groups_per_outer,
                               const uint8_t* panel, int64_t group, int64_t column) {
  using Type = CodedNumbers::Type;
  const hn::Rebind<int32_t, Floats> ints;
  const int64_t at = group * kPanel + column;
  const uint8_t* const from = panel + numbers.first_byte;
  switch (numbers.type) {
    case Type::kConstant:
      break;
    case Type::kFp32:
      return hn::LoadU(Floats(), reinterpret_cast<const float*>(from) + at);
    case Type::kFp16:
      return load_fp16(from + 2 * at);
    case Type::kBf16: {
      const hn::Rebind<uint16_t, Floats> halves;
      const auto half = hn::LoadU(halves, reinterpret_cast<const uint16_t*>(from) + at);
      return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(Bits(), half)));
    }
    case Type::kBytes: {
      const hn::Rebind<uint8_t, Floats> bytes;
      return hn::ConvertTo(Floats(), hn::PromoteTo(ints, hn::LoadU(bytes, from + at)));
    }
    case Type::kNested: {
      const hn::Rebind<int8_t, Floats> bytes;
      const auto factor = hn::LoadU(bytes, reinterpret_cast<const int8_t*>(from) + at);
      const int64_t outer = group / groups_per_outer * kPanel + column;
      return hn::Mul(load_fp16(panel + numbers.first_outer_byte + 2 * outer),
                     hn::ConvertTo(Floats(), hn::PromoteTo(ints, factor)));
    }
  }
  return hn::Set(Floats(), numbers.constant);
}

// The scales and offsets of a panel for each word of a step: those of one group for even rows k and
// of one for odd rows.
struct StepNumbers {
  static constexpr int64_t kWords = CodedLayout::kStepWords;

  // Returns whether other numbers were loaded before. They must be of the same panel.
  bool load(const CodedLayout& layout, const uint8_t* panel, int64_t even_group,
            int64_t odd_group) {
    if (even_group == even && odd_group == odd) return false;
    even = even_group;
    odd = odd_group;
    const auto spread = [&](const CodedNumbers& numbers, float* to) HWY_ATTR {
      for (int64_t column = 0; column < kPanel; column += kLanes) {
        const auto of_group = [&](int64_t group) HWY_ATTR {
          return load_numbers(numbers, layout.groups_per_outer(), panel, group, column);
        };
        const Vector first = of_group(even), second = even == odd ? first : of_group(odd);
        hn::StoreInterleaved2(first, second, Floats(), to + 2 * column);
      }
    };
    spread(layout.scales(), scales);
    spread(layout.offsets(), offsets);
    return true;
  }
  // Forgets all numbers, because those of another panel follow.
  void clear() { even = odd = -1; }

  // Codes of 4 bits are read as numbers that have them at bit 12 or 16 of an fp32 number (see
  // CodeFields). Sets what has to be added to a scale times such a number.
  void find_addends(bool minimums) {
    for (int64_t i = 0; i < kWords; i += kLanes) {
      const Vector scale = hn::LoadU(Floats(), scales + i);
      const Vector offset = hn::LoadU(Floats(), offsets + i);
      const auto addend = [&](float base) HWY_ATTR {
        return minimums ? hn::NegMulAdd(scale, hn::Set(Floats(), base), offset)
                        : hn::Neg(hn::Mul(scale, hn::Add(hn::Set(Floats(), base), offset)));
      };
      hn::StoreU(addend(kAtBit12), Floats(), at_bit12 + i);
      hn::StoreU(addend(kAtBit16), Floats(), at_bit16 + i);
    }
  }

  // The fp32 numbers whose bits 12 and 16 have the weight 1.
  static constexpr float kAtBit12 = 2048.0f, kAtBit16 = 128.0f;

  HWY_ALIGN float scales[kWords], offsets[kWords], at_bit12[kWords], at_bit16[kWords];
  int64_t even = -1, odd = -1;
};

HWY_INLINE Vector float8_of(BitVector code) {
  // The exponent and the fraction move to the place that fp32 has for them, and 120 is added to the
  // exponent, because the biases are 7 and 127. An exponent of 0 has no hidden bit: the number is
  // then 2^-6 · fraction / 8, and the move gave 2^-7 · (1 + fraction / 8).
  const Bits words;
  const auto magnitude = hn::And(code, hn::Set(words, 0x7Fu));
  const auto moved =
      hn::BitCast(Floats(), hn::Add(hn::ShiftLeft<20>(magnitude), hn::Set(words, 120u << 23)));
  const auto small = hn::Sub(hn::Add(moved, moved), hn::Set(Floats(), 0x1p-6f));
  const auto is_small = hn::RebindMask(Floats(), hn::Lt(magnitude, hn::Set(words, 8u)));
  const auto is_nan = hn::RebindMask(Floats(), hn::Eq(magnitude, hn::Set(words, 0x7Fu)));
  const auto value = hn::IfThenElse(is_small, small, moved);
  const auto sign = hn::ShiftLeft<24>(hn::And(code, hn::Set(words, 0x80u)));
  return hn::Or(hn::IfThenElse(is_nan, hn::NaN(Floats()), value), hn::BitCast(Floats(), sign));
}

// The vectors of a panel's numbers that belong to some words of a step.
struct WordNumbers {
  WordNumbers(const StepNumbers& numbers, int64_t word)
      : scale(hn::LoadU(Floats(), numbers.scales + word)),
        offset(hn::LoadU(Floats(), numbers.offsets + word)) {}
  Vector scale, offset;
};
struct WordAddends {
  WordAddends(const StepNumbers& numbers, int64_t word)
      : scale(hn::LoadU(Floats(), numbers.scales + word)),
        at_bit12(hn::LoadU(Floats(), numbers.at_bit12 + word)),
        at_bit16(hn::LoadU(Floats(), numbers.at_bit16 + word)) {}
  Vector scale, at_bit12, at_bit16;
};

// How the fields of a vector of words become values. kMinimums: the offset is a minimum.
template <CodeKind kKind, bool kMinimums>
struct CodeFields {
  static constexpr int kFields = 4 * static_cast<int>(codes_per_byte(kKind));
  using Numbers = WordNumbers;

  CodeFields(const CodedLayout& layout, BitVector word) : word_(word) {
    if constexpr (kKind == CodeKind::kTable4) look_up(layout);
  }

  template <int kField>
  HWY_INLINE Vector value(const Numbers& numbers) const {
    const BitVector code = field<kField>();
    if constexpr (kKind == CodeKind::kFloat8) return hn::Mul(numbers.scale, float8_of(code));
    const Vector number = hn::ConvertTo(Floats(), hn::BitCast(Words(), code));
    if constexpr (kMinimums) return hn::MulAdd(numbers.scale, number, numbers.offset);
    return hn::Mul(numbers.scale, hn::Sub(number, numbers.offset));
  }

 private:
  // Even fields are in the low halves of bytes. Both halves are replaced by bytes of the table.
  HWY_INLINE void look_up(const CodedLayout& layout) {
    const auto low = hn::Set(Bits(), 0x0F0F0F0Fu);
#if HWY_TARGET == HWY_SCALAR
    const auto of_bytes = [&](BitVector codes) HWY_ATTR {
      const uint32_t all = hn::GetLane(codes);
      uint32_t found = 0;
      for (int i = 0; i < 32; i += 8) found |= uint32_t{layout.table()[all >> i & 15]} << i;
      return hn::Set(Bits(), found);
    };
#else
    const hn::Repartition<uint8_t, Bits> bytes;
    const auto table = hn::LoadDup128(bytes, layout.table().data());
    const auto of_bytes = [&](BitVector codes) HWY_ATTR {
      return hn::BitCast(Bits(), hn::TableLookupBytes(table, hn::BitCast(bytes, codes)));
    };
#endif
    odd_ = of_bytes(hn::And(hn::ShiftRight<4>(word_), low));
    word_ = of_bytes(hn::And(word_, low));
  }

  template <int kField>
  HWY_INLINE BitVector field() const {
    constexpr bool kHalves = kKind == CodeKind::kInt4;
    constexpr int kBits = kHalves ? 4 : 8;
    constexpr int kPlace = kKind == CodeKind::kTable4 ? kField / 2 : kField;
    const bool second = kKind == CodeKind::kTable4 && kField % 2 == 1;
    const BitVector shifted = hn::ShiftRight<kBits * kPlace>(second ? odd_ : word_);
    return hn::And(shifted, hn::Set(Bits(), kHalves ? 0xFu : 0xFFu));
  }

  BitVector word_, odd_ = word_;
};

// The fields of codes of 4 bits, with fewer instructions. A code at bit 12 or 16, under the sign
// and exponent of 2^11 or 2^7, is the fp32 number 2^11 + code or 2^7 + code. Its product with the
// scale and the addend are summed with one rounding.
struct FastFields {
  static constexpr int kFields = 8;
  using Numbers = WordAddends;

  FastFields(const CodedLayout& /*layout*/, BitVector word) : word_(word) {}

  template <int kField>
  HWY_INLINE Vector value(const Numbers& numbers) const {
    constexpr bool kAt16 = kField % 2 == 1;
    constexpr uint32_t kMask = kAt16 ? 0xF0000u : 0xF000u;
    constexpr uint32_t kBase = kAt16 ? 0x43000000u : 0x45000000u;
    const BitVector number =
        hn::OrAnd(hn::Set(Bits(), kBase), moved<12 - kField / 2 * 8>(), hn::Set(Bits(), kMask));
    return hn::MulAdd(numbers.scale, hn::BitCast(Floats(), number),
                      kAt16 ? numbers.at_bit16 : numbers.at_bit12);
  }

 private:
  template <int kLeft>
  HWY_INLINE BitVector moved() const {
    if constexpr (kLeft >= 0) {
      return hn::ShiftLeft<kLeft>(word_);
    } else {
      return hn::ShiftRight<-kLeft>(word_);
    }
  }
  BitVector word_;
};

// The place where values go: as rows k of fp32, or as words of two bf16. `pair` counts pairs of
// rows k. The vectors `low` and `high` hold the values of kLanes columns, in the order of the
// words.
struct ToFloats {
  static constexpr bool kExact = true;
  float* to;
  HWY_INLINE void store(int64_t pair, int64_t column, Vector low, Vector high) const {
    float* const row = to + 2 * pair * kPanel + column;
#if HWY_TARGET == HWY_SCALAR
    hn::StoreU(low, Floats(), row);
    hn::StoreU(high, Floats(), row + kPanel);
#else
    hn::StoreU(hn::ConcatEven(Floats(), high, low), Floats(), row);
    hn::StoreU(hn::ConcatOdd(Floats(), high, low), Floats(), row + kPanel);
#endif
  }
};
template <class Pairs>
struct ToPairs {
  static constexpr bool kExact = false;
  int32_t* to;
  HWY_INLINE void store(int64_t pair, int64_t column, Vector low, Vector high) const {
    hn::StoreU(Pairs::round(low, high), Words(), to + pair * kPanel + column);
  }
};

// Expands steps whose rows are all of one group. Step 0 begins with pair `first_pair`.
template <class Fields, class Out>
HWY_INLINE void expand_steps(const CodedLayout& layout, const uint32_t* codes, int64_t steps,
                             const StepNumbers& numbers, int64_t first_pair, const Out& out) {
  for (int64_t column = 0; column < kPanel; column += kLanes) {
    const typename Fields::Numbers low_numbers(numbers, 2 * column);
    const typename Fields::Numbers high_numbers(numbers, 2 * column + kLanes);
    const uint32_t* words = codes + 2 * column;
    for (int64_t step = 0; step < steps; ++step, words += CodedLayout::kStepWords) {
      const Fields low(layout, hn::LoadU(Bits(), words));
      const Fields high(layout, hn::LoadU(Bits(), words + kLanes));
      const int64_t pair = first_pair + step * Fields::kFields;
      [&]<int... kField>(std::integer_sequence<int, kField...>) HWY_ATTR {
        (out.store(pair + kField, column, low.template value<kField>(low_numbers),
                   high.template value<kField>(high_numbers)),
         ...);
      }
      (std::make_integer_sequence<int, Fields::kFields>());
    }
  }
}

// Expands one pair of rows, field kField of a step.
template <class Fields, int kField, class Out>
HWY_INLINE void expand_pair(const CodedLayout& layout, const uint32_t* words,
                            const StepNumbers& numbers, int64_t pair, const Out& out) {
  for (int64_t column = 0; column < kPanel; column += kLanes) {
    const Fields low(layout, hn::LoadU(Bits(), words + 2 * column));
    const Fields high(layout, hn::LoadU(Bits(), words + 2 * column + kLanes));
    out.store(pair, column,
              low.template value<kField>(typename Fields::Numbers(numbers, 2 * column)),
              high.template value<kField>(typename Fields::Numbers(numbers, 2 * column + kLanes)));
  }
}

// Expands rows [first_k, first_k + count) of a panel, and those that fill up the last step. first_k
// begins a step.
template <class Fields, bool kMinimums, class Out>
void expand_fields(const CodedLayout& layout, const uint32_t* panel, int64_t first_k, int64_t count,
                   const Out& out, StepNumbers& numbers) {
  constexpr int64_t kRows = 2 * Fields::kFields;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(panel);
  const uint32_t* words = panel + layout.words_before(first_k);
  const int64_t first = first_k / kRows, end = (first_k + count + kRows - 1) / kRows;
  const auto load = [&](int64_t even, int64_t odd) HWY_ATTR {
    if (!numbers.load(layout, bytes, even, odd)) return;
    if constexpr (std::is_same_v<Fields, FastFields>) numbers.find_addends(kMinimums);
  };
  for (int64_t step = first; step < end;) {
    const int32_t group = layout.group_of_step(step);
    const int64_t pair = (step - first) * Fields::kFields;
    if (group >= 0) {
      int64_t last = step + 1;
      while (last < end && layout.group_of_step(last) == group) ++last;
      load(group, group);
      expand_steps<Fields>(layout, words, last - step, numbers, pair, out);
      words += (last - step) * CodedLayout::kStepWords;
      step = last;
      continue;
    }
    [&]<int... kField>(std::integer_sequence<int, kField...>) HWY_ATTR {
      const int64_t k = step * kRows;
      ((load(layout.group(k + 2 * kField), layout.group(k + 2 * kField + 1)),
        expand_pair<Fields, kField>(layout, words, numbers, pair + kField, out)),
       ...);
    }
    (std::make_integer_sequence<int, Fields::kFields>());
    words += CodedLayout::kStepWords;
    ++step;
  }
}

#if HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64
// Expands rows as expand_fields() does, if layout.shifts_table(). The codes of 16-bit lanes select
// numbers of the table, and the exponent of the scale is added to those of numbers other than 0.
inline void expand_shifted(const CodedLayout& layout, const uint32_t* panel, int64_t first_k,
                           int64_t count, int32_t* to) {
  const hn::Repartition<uint16_t, Words> halves;
  constexpr int64_t kRows = 16, kFields = 4;  // a step, and the codes of a lane
  const auto table = hn::LoadU(halves, layout.bf16_table().data());
  const auto any_number = hn::Set(halves, uint16_t{0x7FFF});
  const uint32_t* words = panel + layout.words_before(first_k);
  const int64_t first = first_k / kRows, end = (first_k + count + kRows - 1) / kRows;
  for (int64_t step = first; step < end; ++step, words += CodedLayout::kStepWords) {
    prefetch_after(reinterpret_cast<const int32_t*>(words), CodedLayout::kStepWords);
    for (int64_t column = 0; column < kPanel; column += kLanes) {
      const Vector scale =
          load_numbers(layout.scales(), layout.groups_per_outer(),
                       reinterpret_cast<const uint8_t*>(panel), layout.group_of_step(step), column);
      // The bf16 number 2^e is (127 + e) << 7. Both lanes of a word get e << 7.
      const auto shift = hn::ShiftRight<16>(
          hn::Sub(hn::BitCast(Bits(), scale), hn::Set(Bits(), uint32_t{127} << 23)));
      const auto shifts = hn::BitCast(halves, hn::Or(shift, hn::ShiftLeft<16>(shift)));
      const auto low = hn::BitCast(halves, hn::LoadU(Bits(), words + 2 * column));
      const auto high = hn::BitCast(halves, hn::LoadU(Bits(), words + 2 * column + kLanes));
      int32_t* const out = to + (step - first) * 2 * kFields * kPanel + column;
      const auto expand = [&]<int... kField>(auto codes, int64_t pair,
                                             std::integer_sequence<int, kField...>) HWY_ATTR
          __attribute__((always_inline)) {
        const auto store = [&](auto code, int64_t at) HWY_ATTR __attribute__((always_inline)) {
          // Highway 1.0 has no lookup of 16-bit lanes. This one uses the lowest five bits.
          const decltype(code) number{_mm512_permutexvar_epi16(code.raw, table.raw)};
          const auto is_number = hn::Ne(hn::And(number, any_number), hn::Zero(halves));
          const auto value = hn::IfThenElse(is_number, hn::Add(number, shifts), number);
          hn::StoreU(hn::BitCast(Words(), value), Words(), out + at * kPanel);
        };
        (store(hn::ShiftRight<4 * kField>(codes), pair + kField), ...);
      };
      constexpr std::make_integer_sequence<int, kFields> kAll;
      expand(hn::ConcatEven(halves, high, low), 0, kAll);
      expand(hn::ConcatOdd(halves, high, low), kFields, kAll);
    }
  }
}
#endif

template <class Out>
void expand_coded(const CodedLayout& layout, const uint32_t* panel, int64_t first_k, int64_t count,
                  const Out& out, StepNumbers& numbers) {
  const auto expand = [&]<CodeKind kKind, bool kMinimums>() HWY_ATTR {
    using Exact = CodeFields<kKind, kMinimums>;
    constexpr bool kFast = kKind == CodeKind::kInt4 && !Out::kExact;
    using Fields = std::conditional_t<kFast, FastFields, Exact>;
    expand_fields<Fields, kMinimums>(layout, panel, first_k, count, out, numbers);
  };
  switch (layout.kind()) {
    case CodeKind::kInt4:
      return layout.adds_minimum() ? expand.template operator()<CodeKind::kInt4, true>()
                                   : expand.template operator()<CodeKind::kInt4, false>();
    case CodeKind::kInt8:
      return layout.adds_minimum() ? expand.template operator()<CodeKind::kInt8, true>()
                                   : expand.template operator()<CodeKind::kInt8, false>();
    case CodeKind::kFloat8:
      return expand.template operator()<CodeKind::kFloat8, false>();
    case CodeKind::kTable4:
#if HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64
      if constexpr (!Out::kExact) {
        if (layout.shifts_table()) return expand_shifted(layout, panel, first_k, count, out.to);
      }
#endif
      return expand.template operator()<CodeKind::kTable4, false>();
  }
}

// Expands rows of a panel to words of two bf16. Zeros follow the last row up to a multiple of 32
// rows, because packed activations do, too.
template <class Pairs>
void expand_to_pairs(const CodedLayout& layout, const uint32_t* panel, int64_t first_k,
                     int64_t count, int32_t* to, StepNumbers& numbers) {
  expand_coded(layout, panel, first_k, count, ToPairs<Pairs>{to}, numbers);
  const int64_t rows = layout.rows_of_step(), expanded = (count + rows - 1) / rows * rows / 2;
  std::fill_n(to + expanded * kPanel, (bf16_words(count) - expanded) * kPanel, 0);
}

// Coded weights as those of FloatProduct<Dot>.
template <class Dot>
struct CodedProduct : FloatProduct<Dot> {
  static constexpr bool kFloats = std::is_same_v<typename Dot::Word, float>;

  static Panels block(const PackedMatrix& w, const ProductPart& part, int64_t first_k,
                      int64_t count) {
    thread_local Buffer<uint32_t> expanded;
    const int64_t words = bf16_words(count) * (kFloats ? 2 : 1) * kPanel;
    uint32_t* const to = expanded.reserve(part.panels * words);
    for (int64_t i = 0; i < part.panels; ++i) {
      const uint32_t* const panel = w.panel(part.first_panel + i);
      StepNumbers numbers;
      if constexpr (kFloats) {
        expand_coded(w.coded(), panel, first_k, count,
                     ToFloats{reinterpret_cast<float*>(to + i * words)}, numbers);
      } else {
        expand_to_pairs<InstructionBf16Pairs>(w.coded(), panel, first_k, count,
                                              reinterpret_cast<int32_t*>(to + i * words), numbers);
      }
    }
    return {to, words, part.panels};
  }
};

// Expands one panel after the other for many rows. With few rows memory is the limit. Blocks of K
// are then so short that what is expanded stays in the first-level cache. Rows of one quad lie in
// the same order, whatever the length of a block.
template <class Dot>
void multiply_coded(const PackedRows& a, const PackedMatrix& w, const ProductPart& part,
                    const float* bias, MutableMatrixView y) {
  constexpr int64_t kShortBlock = 64;  // 32 KiB of 4 panels in fp32
  if (a.rows <= kQuad && a.tiles == 1) {
    PackedRows in_short_blocks = a;
    in_short_blocks.k_block = kShortBlock;
    return multiply_part<CodedProduct<Dot>>(in_short_blocks, w, part, bias, y);
  }
  for (int64_t i = 0; i < part.panels; ++i) {
    ProductPart one = part;
    one.first_panel += i;
    one.panels = 1;
    const int64_t column = i * kPanel;
    multiply_part<CodedProduct<Dot>>(
        a, w, one, bias, {y.data + column, y.rows, std::min(kPanel, y.columns - column), y.stride});
  }
}

// Coded weights as those of a product of tiles of bf16 (AmxBf16Product). Each piece is expanded
// once for all rows: when it begins or, if few tiles of rows pass over it, step by step while the
// first one is multiplied.
template <class Product>
class CodedTiles {
 public:
  static constexpr bool kCopiesWeights = true;
  static constexpr bool kReadsAhead = false;
  static constexpr int64_t kPieceDepth = Product::kPieceDepth;

  void begin(const PackedRows& a, const Piece& piece) {
    product_.begin(a, piece);
    numbers_.clear();
    in_steps_ = piece.tiles < kTilesOfPieces;
    if (!in_steps_) expand(piece, 0, piece.now.count);
  }
  void multiply(const PackedRows& a, const TileOfRows& tile, Piece piece, const Sums& sums) {
    piece.now.words = reinterpret_cast<const uint32_t*>(words_);
    if (!in_steps_) return product_.multiply(a, tile, piece, sums);
    product_.multiply(a, tile, piece, sums, [&](int64_t step) HWY_ATTR {
      const int64_t k = step * kStepRows;
      expand(piece, k, std::min(kStepRows, piece.now.count - k));
    });
    in_steps_ = false;
  }
  void end() { product_.end(); }

 private:
  static constexpr int64_t kStepRows = 32;  // of a tile with pairs of bf16

  // Expands rows [k, k + count) of the piece.
  HWY_INLINE void expand(const Piece& piece, int64_t k, int64_t count) {
    expand_to_pairs<typename Product::Bf16Pairs>(piece.matrix->coded(), piece.panel,
                                                 piece.first_k + k, count, words_ + k / 2 * kPanel,
                                                 numbers_);
  }

  HWY_ALIGN int32_t words_[kPieceDepth / 2 * kPanel];
  StepNumbers numbers_;
  bool in_steps_ = false;
  Product product_;
};

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_CODED_MATMUL_INL_H_
