// Products of many rows with weights of 8, 6 and 4 bits by Intel AMX, for one instruction set (see
// kernels.h, amx_pieces-inl.h, packed_rows.h). Highway includes this file once per target.
//
// A piece of weights is copied as signed bytes, so that the sums of a group need no correction. The
// sums are the same integers as those of all other instructions. They leave the tiles through
// memory, because no instruction moves a tile to vectors, and are scaled and added to the fp32 sums
// in the same order. Results therefore have the same bits.
//
// The vector instructions that scale a group run between the tile products of the next group, which
// may belong to the next tile of rows. Measured: waiting one group longer gains nothing.

#if defined(NEURONMM_CPU_AMX_BYTES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_AMX_BYTES_INL_H_
#undef NEURONMM_CPU_AMX_BYTES_INL_H_
#else
#define NEURONMM_CPU_AMX_BYTES_INL_H_
#endif

#include "cpu/amx_pieces-inl.h"
#include "cpu/amx_tiles-inl.h"
#include "cpu/int8_matmul-inl.h"
#include "cpu/low_bit_codes-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

// Packed weights hold bytes + 128; flipping the highest bit makes them signed.
inline constexpr int32_t kHighestBits = static_cast<int32_t>(0x80808080);

// How lines of a group, 4 rows k of 32 columns each, become signed bytes. expand() writes lines
// [first, end) of a group to the same lines of `to`; `first` is a multiple of kLinesAtOnce. The
// lines begin after kFirstWords of scales and other numbers.
inline constexpr int64_t kLinesAtOnce = 4;
struct SignedStoredBytes {
  static constexpr int64_t kWordsOfGroup = kInt8GroupWords;
  static constexpr int64_t kFirstWords = kScaleWords, kWordsOfLine = kPanel;
  static HWY_INLINE void expand(const int32_t* HWY_RESTRICT group, int64_t first, int64_t end,
                                int32_t* HWY_RESTRICT to) {
    const Words words;
    for (int64_t i = first * kPanel; i < end * kPanel; i += kLanes) {
      const WordVector bytes = hn::LoadU(words, group + kScaleWords + i);
      hn::StoreU(hn::Xor(bytes, hn::Set(words, kHighestBits)), words, to + i);
    }
  }
};
template <class Codes>
struct SignedCodes {
  static constexpr int64_t kWordsOfGroup = Codes::kWordsOfGroup;
  static constexpr int64_t kFirstWords = Codes::kLayout.first_line();
  static constexpr int64_t kWordsOfLine = Codes::kLayout.lines_words / 2;
  static HWY_INLINE void expand(const int32_t* HWY_RESTRICT group, int64_t first, int64_t end,
                                int32_t* HWY_RESTRICT to) {
    expand_lines<Codes, typename Codes::Signed>(group, first, end, to);
  }
};

template <class Tiles, class Source>
class AmxBytes {
 public:
  static constexpr bool kCopiesWeights = true;
  static constexpr bool kReadsAhead = true;
  // Two groups. Their bytes take 8 KiB, and those of the next piece as much.
  static constexpr int64_t kPieceDepth = 2 * kQuantGroup;

  // Expands what is not yet expanded of the piece, and notes the next one.
  void begin(const PackedRows& /*a*/, const Piece& piece) {
    if (ahead_.words != words_of(piece.now.words)) expand_from(piece.now, piece);
    while (ahead_.line < ahead_.lines) expand_some();
    bytes_ = ahead_.to;
    expand_from(piece.next, piece);
  }

  // All tiles of a part are computed as if they had the rows of the highest one, because changing
  // the configuration takes longer than a tile product. What lower tiles compute beyond their rows
  // is not used. In a profile of experts with two tiles, changing it took an eighth of the time.
  void multiply(const PackedRows& a, const TileOfRows& tile, const Piece& piece, const Sums& sums) {
    tiles_.configure(piece.highest_tile);
    if (piece.highest_tile > Registers::kRows) {
      multiply_groups<true>(a, tile, piece, sums);
    } else {
      multiply_groups<false>(a, tile, piece, sums);
    }
  }

  // Scales the last group.
  void end() {
    for (int slot = 0; slot < kSlots; ++slot) scale_slot(waiting_, slot);
    waiting_.rows = 0;
  }

 private:
  using Registers = PanelTiles<Tiles>;
  static constexpr int64_t kStepWords = Registers::kStepWords;
  static constexpr int64_t kProductBytes = kPanel * kWordBytes;
  // A group's sums are scaled in as many slots as it has tile products, 4 rows each.
  static constexpr int kSlots = 8;
  static constexpr int64_t kSlotRows = kMaxTileRows / kSlots;
  static_assert(kGroupWords == 2 * kStepWords && kGroupWords == kSlots * kLinesAtOnce);

  // The int32 sums of a group, their scales, and the fp32 sums that they are added to.
  struct Group {
    const int32_t* products = nullptr;
    const float* row_scales = nullptr;
    const int32_t* scales = nullptr;  // of the columns
    Sums sums = {};
    int64_t rows = 0;
  };

  // A piece whose lines are expanded, some of them in each slot.
  struct Expansion {
    const int32_t* words = nullptr;
    int64_t line = 0, lines = 0;  // the next one to expand, and the number of all
    int64_t ahead = 0;            // the distance of words to ask for
    int32_t* to = nullptr;
  };

  static const int32_t* words_of(const uint32_t* words) {
    return reinterpret_cast<const int32_t*>(words);
  }
  void expand_from(const WordsOfRows& rows, const Piece& piece) {
    int32_t* const to = ahead_.to == storage_[0] ? storage_[1] : storage_[0];
    const int64_t rest = rows.count % kQuantGroup;
    const int64_t lines = rows.count / kQuantGroup * kGroupWords + (rest > 0 ? lines_of(rest) : 0);
    ahead_ = {words_of(rows.words), 0, lines, rows.ahead, to};
    slots_per_expansion_ = slots_to_wait_ = piece.tiles;
  }
  HWY_INLINE void expand_some() {
    const int64_t line = ahead_.line, group = line / kGroupWords, first = line % kGroupWords;
    const int64_t end = std::min(first + kLinesAtOnce, ahead_.lines - group * kGroupWords);
    const int32_t* const from = ahead_.words + group * Source::kWordsOfGroup;
    const int32_t* const later = from + ahead_.ahead;
    for (int64_t i = first == 0 ? 0 : Source::kFirstWords + first * Source::kWordsOfLine;
         i < Source::kFirstWords + end * Source::kWordsOfLine; i += kCacheLineWords) {
      prefetch_to_second_level(later + i);
    }
    Source::expand(from, first, end, ahead_.to + group * kGroupWords * kPanel);
    ahead_.line = line + kLinesAtOnce;
  }
  // Does a slot's share of the expansion. With several tiles, each expands a part of it.
  HWY_NOINLINE void expand_in_slot() {
    if (--slots_to_wait_ > 0) return;
    slots_to_wait_ = slots_per_expansion_;
    if (ahead_.line < ahead_.lines) expand_some();
  }

  template <bool kBothHalves>
  void multiply_groups(const PackedRows& a, const TileOfRows& tile, const Piece& piece, Sums sums) {
    HWY_ALIGN static constexpr float kZeros[kPanel] = {};
    if (sums.init == nullptr) {
      sums.init = kZeros;
      sums.init_stride = 0;
    }
    const int64_t rows = tile.count;
    const auto* group = words_of(piece.now.words);
    const Sums after = {sums.y, sums.y_stride, sums.y, sums.y_stride};
    for (int64_t k = 0; k < piece.now.count; k += kQuantGroup) {
      const int64_t depth = std::min(kQuantGroup, piece.now.count - k), at = piece.first_k + k;
      const Group before = waiting_;  // a copy, whose fields stay in registers
      int32_t* const products = products_[turn_ ^= 1];
      multiply_group<kBothHalves>(piece.highest_tile, depth,
                                  a.words + a.int8_bytes_offset(tile, at),
                                  bytes_ + k / kWordBytes * kPanel, before, products);
      waiting_ = {
          .products = products,
          .row_scales = reinterpret_cast<const float*>(a.words + a.int8_header_offset(tile, at)),
          .scales = group,
          .sums = sums,
          .rows = rows};
      sums = after;
      group += Source::kWordsOfGroup;
    }
  }

  // Sets `products` to a group of rows times the panel's bytes. Meanwhile it scales the group
  // before it and expands some lines of the next piece.
  template <bool kBothHalves>
  HWY_INLINE void multiply_group(int64_t rows, int64_t depth, const int32_t* a, const int32_t* w,
                                 const Group& before, int32_t* products) {
    const int64_t upper = Registers::upper_rows(rows);
    Tiles::template zero<0>();
    Tiles::template zero<1>();
    if constexpr (kBothHalves) {
      Tiles::template zero<2>();
      Tiles::template zero<3>();
    }
    add_step<kBothHalves, 0>(a, w, upper, before);
    if (depth > kQuantGroup / 2) {
      add_step<kBothHalves, 4>(a + kStepWords, w + kStepWords * kPanel, upper, before);
    } else {
      for (int slot = 4; slot < kSlots; ++slot) between(before, slot);
    }
    Tiles::template store<0>(products, kProductBytes);
    Tiles::template store<1>(products + kHalfPanel, kProductBytes);
    if constexpr (kBothHalves) {
      Tiles::template store<2>(products + upper * kPanel, kProductBytes);
      Tiles::template store<3>(products + upper * kPanel + kHalfPanel, kProductBytes);
    }
  }

  // Adds the products of 64 of the group's 128 k to the tiles of sums.
  template <bool kBothHalves, int kSlot>
  HWY_INLINE void add_step(const int32_t* a, const int32_t* w, int64_t upper, const Group& before) {
    constexpr int64_t kARow = kGroupWords * kWordBytes, kWordRow = kPanel * kWordBytes;
    Tiles::template load<6>(w, kWordRow);
    Tiles::template load<4>(a, kARow);
    Tiles::template dot_signed_bytes<0, 4, 6>();
    between(before, kSlot);
    Tiles::template load<7>(w + kHalfPanel, kWordRow);
    Tiles::template dot_signed_bytes<1, 4, 7>();
    between(before, kSlot + 1);
    if constexpr (kBothHalves) {
      Tiles::template load<5>(a + upper * kGroupWords, kARow);
      Tiles::template dot_signed_bytes<2, 5, 6>();
    }
    between(before, kSlot + 2);
    if constexpr (kBothHalves) Tiles::template dot_signed_bytes<3, 5, 7>();
    between(before, kSlot + 3);
  }

  HWY_INLINE void between(const Group& before, int slot) {
    scale_slot(before, slot);
    expand_in_slot();
  }

  // Adds the scaled products of one slot's rows to the sums; the last slot may have fewer rows.
  static HWY_INLINE void scale_slot(const Group& group, int slot) {
    const int64_t first = slot * kSlotRows;
    if (first + kSlotRows <= group.rows) {
      scale_rows<kSlotRows>(group, first, kSlotRows);
    } else if (first < group.rows) {
      scale_rows<0>(group, first, group.rows - first);
    }
  }
  // Scales kRows rows, or `rows` of them if kRows is 0.
  template <int64_t kRows>
  static HWY_INLINE void scale_rows(const Group& group, int64_t first, int64_t rows) {
    const Floats d;
    Vector scales[kPanelVectors];
    for (int64_t v = 0; v < kPanelVectors; ++v) scales[v] = load_scales(group.scales, v * kLanes);
    const int32_t* products = group.products + first * kPanel;
    const float* init = group.sums.init + first * group.sums.init_stride;
    float* y = group.sums.y + first * group.sums.y_stride;
    for (int64_t r = 0; r < (kRows > 0 ? kRows : rows); ++r) {
      const Vector row_scale = hn::Set(d, group.row_scales[first + r]);
      for (int64_t v = 0; v < kPanelVectors; ++v) {
        const WordVector product = hn::Load(Words(), products + v * kLanes);
        const Vector sum = hn::LoadU(d, init + v * kLanes);
        hn::StoreU(add_scaled(sum, product, row_scale, scales[v]), d, y + v * kLanes);
      }
      products += kPanel;
      init += group.sums.init_stride;
      y += group.sums.y_stride;
    }
  }

  HWY_ALIGN int32_t storage_[2][kPieceDepth / kWordBytes * kPanel];
  HWY_ALIGN int32_t products_[2][kMaxTileRows * kPanel];
  const int32_t* bytes_ = nullptr;  // of the piece that is multiplied
  Expansion ahead_;
  int64_t slots_per_expansion_ = 1, slots_to_wait_ = 1;
  int turn_ = 0;
  Group waiting_;  // to be scaled
  Registers tiles_;
};

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_AMX_BYTES_INL_H_
