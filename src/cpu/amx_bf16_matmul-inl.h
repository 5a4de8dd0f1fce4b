// Products of bf16 rows with bf16 weights by Intel AMX, for one instruction set (see kernels.h,
// amx_tiles-inl.h, packed_rows.h). Highway includes this file once per target.
//
// TDPBF16PS adds up 16 products of even k and 16 of odd k separately, and then adds both to the
// sum. Other instructions add in another order. AMX is therefore used for every number of rows,
// even for one, so that a row's result does not depend on its neighbours. The weights are already
// in its layout: row i of a tile is word i of 16 columns.
//
// Measured on an Intel CPU of 2024 (one core): TDPBF16PS takes 16 cycles for 16 rows. With both
// operands in the second-level cache it reaches half of that speed, which the cache's bandwidth
// allows and which is seven times that of fp32. Blocks of K or of columns that stay in the
// first-level cache, prefetching, and tiles of 48 rows changed the speed by less than a tenth.

#if defined(NEURONMM_CPU_AMX_BF16_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_AMX_BF16_MATMUL_INL_H_
#undef NEURONMM_CPU_AMX_BF16_MATMUL_INL_H_
#else
#define NEURONMM_CPU_AMX_BF16_MATMUL_INL_H_
#endif

#include "cpu/amx_tiles-inl.h"
#include "cpu/bf16_pairs-inl.h"
#include "cpu/matmul-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

template <class Tiles, class PairsOfFloats = PortableBf16Pairs>
class AmxBf16Product : public InPlace {
 public:
  using Bf16Pairs = PairsOfFloats;
  static constexpr bool kRowsInSteps = true;  // the layout of rows, see packed_rows.h
  static constexpr int64_t kMostRows = kMaxTileRows;

  void multiply(const PackedRows& a, int64_t t, int64_t first_k, int64_t count, const Panels& w,
                const Sums& sums) {
    const int64_t rows = a.tile_rows(t);
    configure(rows);
    for (int64_t panel = 0; panel < w.count; ++panel) {
      multiply_panel(rows,
                     {.a = a.words + a.bf16_offset(t, first_k, count),
                      .w = reinterpret_cast<const int32_t*>(w.words) + panel * w.panel_words,
                      .steps = bf16_words(count) / kStepWords},
                     {sums.init == nullptr ? nullptr : sums.init + panel * kPanel, sums.init_stride,
                      sums.y + panel * kPanel, sums.y_stride});
    }
  }

  // The rows of a tile and a panel, both in steps of 32 k.
  struct Operands {
    const int32_t* a;
    const int32_t* w;
    int64_t steps;
  };
  void configure(int64_t rows) { tiles_.configure(rows); }
  // Multiplies the rows with one panel. The tiles must be configured for their number.
  static HWY_INLINE void multiply_panel(int64_t rows, const Operands& of, const Sums& sums) {
    if (rows > kRows) {
      multiply_halves<true>(rows, of, sums);
    } else {
      multiply_halves<false>(rows, of, sums);
    }
  }

 private:
  using Registers = PanelTiles<Tiles>;
  static constexpr int64_t kRows = Registers::kRows, kStepWords = Registers::kStepWords;
  static constexpr int64_t kFloatBytes = sizeof(float);

  template <bool kBothHalves>
  static HWY_INLINE void multiply_halves(int64_t rows, const Operands& of, const Sums& sums) {
    const int64_t upper = Registers::upper_rows(rows);
    begin<0>(sums, 0);
    if constexpr (kBothHalves) begin<2>(sums, upper);
    const int32_t* a = of.a;
    const int32_t* w = of.w;
    for (int64_t i = 0; i < of.steps; ++i) {
      constexpr int64_t kARow = kStepWords * kWordBytes, kWordRow = kPanel * kWordBytes;
      Tiles::template load<4>(a, kARow);
      if constexpr (kBothHalves) Tiles::template load<5>(a + upper * kStepWords, kARow);
      Tiles::template load<6>(w, kWordRow);
      Tiles::template load<7>(w + kHalfPanel, kWordRow);
      Tiles::template dot_bf16<0, 4, 6>();
      Tiles::template dot_bf16<1, 4, 7>();
      if constexpr (kBothHalves) {
        Tiles::template dot_bf16<2, 5, 6>();
        Tiles::template dot_bf16<3, 5, 7>();
      }
      a += rows * kStepWords;
      w += kStepWords * kPanel;
    }
    end<0>(sums, 0);
    if constexpr (kBothHalves) end<2>(sums, upper);
  }

  // Loads two tiles of sums, for the rows from `row` on. A bias has a stride of 0, so that every
  // row starts with it.
  template <int kTile>
  static HWY_INLINE void begin(const Sums& sums, int64_t row) {
    if (sums.init == nullptr) {
      Tiles::template zero<kTile>();
      Tiles::template zero<kTile + 1>();
      return;
    }
    const float* const from = sums.init + row * sums.init_stride;
    Tiles::template load<kTile>(from, sums.init_stride * kFloatBytes);
    Tiles::template load<kTile + 1>(from + kHalfPanel, sums.init_stride * kFloatBytes);
  }
  template <int kTile>
  static HWY_INLINE void end(const Sums& sums, int64_t row) {
    float* const to = sums.y + row * sums.y_stride;
    Tiles::template store<kTile>(to, sums.y_stride * kFloatBytes);
    Tiles::template store<kTile + 1>(to + kHalfPanel, sums.y_stride * kFloatBytes);
  }

  Registers tiles_;
};

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_AMX_BF16_MATMUL_INL_H_
