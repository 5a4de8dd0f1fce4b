// Products of few rows with int8 weights by Intel AMX, for one instruction set (see kernels.h,
// amx_tiles-inl.h, packed_rows.h). Many rows take amx_bytes-inl.h. Highway includes this file once
// per target.
//
// Only the int32 sums of groups are computed in another way than in int8_matmul-inl.h: up to 32
// rows of 128 bytes are multiplied with a panel in two steps of 64. The sums are exact. They pass
// through memory into the same fp32 sums in the same order, so the results equal those of all other
// instructions.
//
// Measured on an Intel CPU of 2024 (one core, in cache; docs/measurements/cpu_speed.md): this
// product is 2.5 times as fast as VNNI's. The vector instructions that scale a group's sums run
// between the tile products of the next group, which is a tenth faster than after them. Tiles of 12
// rows, whose sums stay in registers, are slower.

#if defined(NEURONMM_CPU_AMX_INT8_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_AMX_INT8_MATMUL_INL_H_
#undef NEURONMM_CPU_AMX_INT8_MATMUL_INL_H_
#else
#define NEURONMM_CPU_AMX_INT8_MATMUL_INL_H_
#endif

#include <type_traits>

#include "cpu/amx_bytes-inl.h"
#include "cpu/amx_tiles-inl.h"
#include "cpu/int8_matmul-inl.h"
#include "cpu/low_bit_codes-inl.h"
#include "cpu/matmul-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

// An Int8Product that multiplies high tiles of rows by `Tiles`, and all others as Instruction does.
template <class Tiles, class Instruction>
class AmxInt8Product : public InPlace {
 public:
  // Prefetching codes pays for any number of rows on Intel's CPUs with AMX. Measured on one of 2024
  // (two cores, weights in memory): two and four rows take an eighth less time with it, and one row
  // takes as long.
  struct Dot : Int8Dot<Instruction> {
    static constexpr int kCodePrefetchRows = 1;
  };
  static constexpr int64_t kMostRows = kMaxTileRows;

  static constexpr bool kInPieces = true;
  template <class Source>
  using Pieces = AmxBytes<Tiles, Source>;
  static bool takes_pieces(const PackedRows& a) {
    return a.tiles >= kTilesOfPieces && takes_rows(a.tile_rows(a.tiles - 1));
  }

  // Returns whether tiles of this height are multiplied by AMX. For lower tiles memory is the
  // limit.
  static constexpr bool takes_rows(int64_t tile_rows) { return tile_rows > kMostRefusedRows; }
  static constexpr int64_t kMostRefusedRows = kTileRows / 2;

  void multiply(const PackedRows& a, int64_t t, int64_t first_k, int64_t count, const Panels& w,
                const Sums& sums) {
    const int64_t rows = a.tile_rows(t);
    if (!takes_rows(rows)) {
      return Int8Product<Instruction>::multiply(a, t, first_k, count, w, sums);
    }
    tiles_.configure(rows);
    for (int64_t panel = 0; panel < w.count; ++panel) {
      const Operands operands = {
          .rows = rows,
          .a = a.words + a.int8_bytes_offset(t, first_k),
          .headers = a.words + a.int8_header_offset(t, first_k),
          .w = reinterpret_cast<const int32_t*>(w.words) + panel * w.panel_words,
          .k = count};
      const Sums of_panel = {sums.init == nullptr ? nullptr : sums.init + panel * kPanel,
                             sums.init_stride, sums.y + panel * kPanel, sums.y_stride};
      if (rows > Registers::kRows) {
        multiply_panel<true>(operands, of_panel);
      } else {
        multiply_panel<false>(operands, of_panel);
      }
    }
  }

 private:
  using Registers = PanelTiles<Tiles>;
  static constexpr int64_t kStepWords = Registers::kStepWords;
  static constexpr int64_t kProductBytes = kPanel * kWordBytes;
  // The sums of a group are scaled in as many slots as the next group has tile products, 4 rows
  // each.
  static constexpr int kSlots = 8;
  static constexpr int64_t kSlotRows = kMaxTileRows / kSlots;
  static_assert(kGroupWords == 2 * kStepWords);

  struct Operands {
    int64_t rows;
    const int32_t* a;
    const int32_t* headers;
    const int32_t* w;
    int64_t k;
  };

  // The int32 sums of a group, and the headers and weights that hold their scales.
  struct Group {
    const int32_t* products;
    const int32_t* headers;
    const int32_t* w;
    int64_t rows;
  };

  // Multiplies all groups of a panel. Each group is scaled while the next one is multiplied.
  template <bool kBothHalves>
  static HWY_INLINE void multiply_panel(Operands of, const Sums& to) {
    HWY_ALIGN int32_t products[2][kMaxTileRows * kPanel];
    HWY_ALIGN float sums[kMaxTileRows * kPanel];
    copy_rows(of.rows, to.init, to.init_stride, sums, kPanel);
    Group last = {nullptr, nullptr, nullptr, 0};
    for (int64_t i = 0; of.k > 0; ++i, of.k -= kQuantGroup) {
      int32_t* const now = products[i % 2];
      const auto between = [&](int slot) HWY_ATTR __attribute__((always_inline)) {
        scale_slot(last, slot, sums);
      };
      multiply_group<kBothHalves>(of, of.w + kScaleWords, now, between);
      last = {now, of.headers, of.w, of.rows};
      of.a += of.rows * kGroupWords;
      of.headers += of.rows * kHeaderWords;
      of.w += kInt8GroupWords;
    }
    for (int slot = 0; slot < kSlots; ++slot) scale_slot(last, slot, sums);
    copy_rows(of.rows, sums, kPanel, to.y, to.y_stride);
  }

  // Sets `products` to a group of rows times the panel's bytes. Calls between(slot) for each of the
  // eight slots, between tile products.
  template <bool kBothHalves, class Between>
  static HWY_INLINE void multiply_group(const Operands& of, const int32_t* w, int32_t* products,
                                        const Between& between) {
    const int64_t upper = Registers::upper_rows(of.rows);
    Tiles::template zero<0>();
    Tiles::template zero<1>();
    if constexpr (kBothHalves) {
      Tiles::template zero<2>();
      Tiles::template zero<3>();
    }
    add_step<kBothHalves, 0>(of.a, w, upper, between);
    if (of.k > kQuantGroup / 2) {
      add_step<kBothHalves, 4>(of.a + kStepWords, w + kStepWords * kPanel, upper, between);
    } else {
      for (int slot = 4; slot < kSlots; ++slot) between(slot);
    }
    // The sums leave the tiles through memory, because no instruction moves a tile to vectors.
    Tiles::template store<0>(products, kProductBytes);
    Tiles::template store<1>(products + kHalfPanel, kProductBytes);
    if constexpr (kBothHalves) {
      Tiles::template store<2>(products + upper * kPanel, kProductBytes);
      Tiles::template store<3>(products + upper * kPanel + kHalfPanel, kProductBytes);
    }
  }

  // Adds the products of 64 of the group's 128 k to the tiles of sums.
  template <bool kBothHalves, int kSlot, class Between>
  static HWY_INLINE void add_step(const int32_t* a, const int32_t* w, int64_t upper,
                                  const Between& between) {
    constexpr int64_t kARow = kGroupWords * kWordBytes, kWordRow = kPanel * kWordBytes;
    Tiles::template load<6>(w, kWordRow);
    Tiles::template load<4>(a, kARow);
    Tiles::template dot_bytes<0, 4, 6>();
    between(kSlot);
    Tiles::template load<7>(w + kHalfPanel, kWordRow);
    Tiles::template dot_bytes<1, 4, 7>();
    between(kSlot + 1);
    if constexpr (kBothHalves) {
      Tiles::template load<5>(a + upper * kGroupWords, kARow);
      Tiles::template dot_bytes<2, 5, 6>();
    }
    between(kSlot + 2);
    if constexpr (kBothHalves) Tiles::template dot_bytes<3, 5, 7>();
    between(kSlot + 3);
  }

  // Adds the scaled products of one slot's rows to `sums`; the last slot may have fewer rows.
  static HWY_INLINE void scale_slot(const Group& group, int slot, float* HWY_RESTRICT sums) {
    const int64_t first = slot * kSlotRows;
    if (first + kSlotRows <= group.rows) {
      scale_rows(group, first, first + kSlotRows, sums);
    } else if (first < group.rows) {
      scale_rows(group, first, group.rows, sums);
    }
  }
  static HWY_INLINE void scale_rows(const Group& group, int64_t first, int64_t end,
                                    float* HWY_RESTRICT sums) {
    const Words words;
    Vector scales[kPanelVectors];
    for (int64_t v = 0; v < kPanelVectors; ++v) scales[v] = load_scales(group.w, v * kLanes);
    for (int64_t r = first; r < end; ++r) {
      const Vector row_scale = hn::BitCast(Floats(), hn::Set(words, group.headers[r]));
      const WordVector correction = hn::Set(words, group.headers[group.rows + r]);
      for (int64_t v = 0; v < kPanelVectors; ++v) {
        const int64_t at = r * kPanel + v * kLanes;
        const WordVector product = hn::Add(hn::Load(words, group.products + at), correction);
        const Vector sum = hn::Load(Floats(), sums + at);
        hn::Store(add_scaled(sum, product, row_scale, scales[v]), Floats(), sums + at);
      }
    }
  }

  // Copies a panel's columns from `from` to `to`, or zeros if `from` is null.
  static HWY_INLINE void copy_rows(int64_t rows, const float* from, int64_t from_stride, float* to,
                                   int64_t to_stride) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t column = 0; column < kPanel; column += kLanes) {
        const Vector value = from == nullptr ? hn::Zero(Floats())
                                             : hn::LoadU(Floats(), from + r * from_stride + column);
        hn::StoreU(value, Floats(), to + r * to_stride + column);
      }
    }
  }

  Registers tiles_;
};

// Computes a part of a product with weights of 8 bits.
template <class ByteProduct>
void multiply_bytes(const PackedRows& a, const PackedMatrix& w, const ProductPart& part,
                    const float* bias, MutableMatrixView y) {
  if constexpr (ByteProduct::kInPieces) {
    if (ByteProduct::takes_pieces(a)) {
      using Pieces = typename ByteProduct::template Pieces<SignedStoredBytes>;
      return multiply_in_pieces<Pieces>(a, w, part, bias, y);
    }
  }
  multiply_part<ByteProduct>(a, w, part, bias, y);
}

// Calls use(std::type_identity<Product>()) with the product of int8 rows of a table of kernels. How
// words of bytes are multiplied is decided when a table is made, and not at every call.
template <class Use>
void with_byte_product(const Kernels& kernels, const Use& use) {
  if (kernels.dot_products == DotProducts::kNone) {
    use(std::type_identity<Int8Product<WidenedByteDot>>());
#if HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64
  } else if (kernels.amx) {
    use(std::type_identity<AmxInt8Product<AmxTiles, OneByteDot>>());
#endif
  } else {
    use(std::type_identity<Int8Product<OneByteDot>>());
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_AMX_INT8_MATMUL_INL_H_
