// Products of bf16 rows with bf16 weights by Intel AMX, for one instruction set (see kernels.h,
// amx_tiles-inl.h, packed_rows.h). Highway includes this file once per target.
//
// TDPBF16PS adds up 16 products of even k and 16 of odd k separately, and then adds both to the
// sum. Other instructions add in another order. AMX is therefore used for every number of rows,
// even for one, so that a row's result does not depend on its neighbours. The weights are already
// in its layout: row i of a tile is word i of 16 columns.

#if defined(NEURONMM_CPU_AMX_BF16_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_AMX_BF16_MATMUL_INL_H_
#undef NEURONMM_CPU_AMX_BF16_MATMUL_INL_H_
#else
#define NEURONMM_CPU_AMX_BF16_MATMUL_INL_H_
#endif

#include "cpu/amx_pieces-inl.h"
#include "cpu/amx_tiles-inl.h"
#include "cpu/bf16_pairs-inl.h"
#include "cpu/matmul-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

struct NothingToPrepare {
  void operator()(int64_t /*step*/) const {}
};

template <class Tiles, class PairsOfFloats = PortableBf16Pairs>
class AmxBf16Product {
 public:
  using Bf16Pairs = PairsOfFloats;
  static constexpr bool kRowsInSteps = true;  // the layout of rows, see packed_rows.h
  static constexpr int64_t kMostRows = kMaxTileRows;

  static constexpr bool kInPieces = true;
  static constexpr bool kCopiesWeights = false;
  static constexpr bool kReadsAhead = false;
  static constexpr int64_t kPieceDepth = 256;  // 16 KiB of a panel

  void begin(const PackedRows& a, const Piece& piece) {
    block_ = piece.first_k / a.k_block * a.k_block;
    depth_ = std::min(a.k_block, a.k - block_);
  }
  void end() {}
  // Calls prepare(i) before it reads the words of step i of the piece, once per step. What it does
  // runs while the tiles of the step before are multiplied.
  template <class Prepare = NothingToPrepare>
  void multiply(const PackedRows& a, const TileOfRows& tile, const Piece& piece, const Sums& sums,
                const Prepare& prepare = {}) {
    configure(tile.count);
    multiply_panel(tile.count,
                   {.a = a.words + a.bf16_offset(tile, block_, depth_) +
                         (piece.first_k - block_) / 2 * tile.count,
                    .row_words = kStepWords,
                    .step_words = tile.count * kStepWords,
                    .w = reinterpret_cast<const int32_t*>(piece.now.words),
                    .steps = bf16_words(piece.now.count) / kStepWords},
                   sums, prepare);
  }

  // The rows of a tile and a panel, both in steps of 32 k. Rows and steps of the former may lie
  // anywhere.
  struct Operands {
    const int32_t* a;
    int64_t row_words, step_words;
    const int32_t* w;
    int64_t steps;
  };
  void configure(int64_t rows) { tiles_.configure(rows); }
  // Multiplies the rows with one panel. The tiles must be configured for their number.
  template <class Prepare = NothingToPrepare>
  static HWY_INLINE void multiply_panel(int64_t rows, const Operands& of, const Sums& sums,
                                        const Prepare& prepare = {}) {
    if (rows > kRows) {
      multiply_halves<true>(rows, of, sums, prepare);
    } else {
      multiply_halves<false>(rows, of, sums, prepare);
    }
  }

 private:
  using Registers = PanelTiles<Tiles>;
  static constexpr int64_t kRows = Registers::kRows, kStepWords = Registers::kStepWords;
  static constexpr int64_t kFloatBytes = sizeof(float);

  template <bool kBothHalves, class Prepare>
  static HWY_INLINE void multiply_halves(int64_t rows, const Operands& of, const Sums& sums,
                                         const Prepare& prepare) {
    const int64_t upper = Registers::upper_rows(rows);
    begin<0>(sums, 0);
    if constexpr (kBothHalves) begin<2>(sums, upper);
    const int32_t* a = of.a;
    const int32_t* w = of.w;
    const int64_t row_bytes = of.row_words * kWordBytes;
    prepare(0);
    for (int64_t i = 0; i < of.steps; ++i) {
      constexpr int64_t kWordRow = kPanel * kWordBytes;
      Tiles::template load<4>(a, row_bytes);
      if constexpr (kBothHalves) Tiles::template load<5>(a + upper * of.row_words, row_bytes);
      Tiles::template load<6>(w, kWordRow);
      Tiles::template load<7>(w + kHalfPanel, kWordRow);
      Tiles::template dot_bf16<0, 4, 6>();
      Tiles::template dot_bf16<1, 4, 7>();
      if constexpr (kBothHalves) {
        Tiles::template dot_bf16<2, 5, 6>();
        Tiles::template dot_bf16<3, 5, 7>();
      }
      if (i + 1 < of.steps) prepare(i + 1);
      a += of.step_words;
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

  int64_t block_ = 0, depth_ = 0;  // the block of K that has the piece
  Registers tiles_;
};

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_AMX_BF16_MATMUL_INL_H_
