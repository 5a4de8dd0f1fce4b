// Products with int8 weights by Intel AMX, for one instruction set (see kernels.h, amx.h,
// packed_rows.h). Highway includes this file once per target.
//
// Only the int32 sums of whole groups are made in another way than in int8_matmul-inl.h: R rows of
// 128 bytes times 128 rows of 2 vectors of columns, in two steps of 64. They are exact, and pass
// through memory into the same fp32 sums in the same order, so the results are those of every other
// instruction. The weights lie as TDPBSUD wants them: row i of a tile is word i of 16 columns.
//
// Its speed is assumed, not measured (see amx.h): a TDPBSUD every 16 cycles and a load every 8.
// Then 12 rows and 32 columns of a group take 64 cycles of products and 48 of loads, and their sums
// 96 vector instructions beside them; with VNNI they take 384 cycles. A tile could have 16 rows,
// but the 32 fp32 sums of 16 rows would leave no register.

#if defined(NEURONMM_CPU_AMX_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_AMX_MATMUL_INL_H_
#undef NEURONMM_CPU_AMX_MATMUL_INL_H_
#else
#define NEURONMM_CPU_AMX_MATMUL_INL_H_
#endif

#include "cpu/amx.h"
#include "cpu/int8_matmul-inl.h"
#include "cpu/matmul-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64
// As assembly, since Highway does not ask the compiler for AMX, and volatile, since the compiler
// does not know the tiles that they change.
struct AmxTiles {
  static HWY_INLINE void configure(const TileConfig& config) {
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  static HWY_INLINE void release() { asm volatile("tilerelease"); }
  template <int kTile>
  static HWY_INLINE void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  // Rows `stride` bytes apart.
  template <int kTile>
  static HWY_INLINE void load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  static HWY_INLINE void store(void* to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
  }
  // C += A · B: signed bytes of A, unsigned ones of B.
  template <int kC, int kA, int kB>
  static HWY_INLINE void dot() {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
};
#endif

// An Int8Product that multiplies whole groups of high tiles by `Tiles`, all others as Instruction
// does. An object holds its thread's tile registers: it configures them when it needs to, and
// releases them at its end.
template <class Tiles, class Instruction>
class AmxProduct : public InPlace {
 public:
  using Dot = Int8Dot<Instruction>;

  AmxProduct() = default;
  AmxProduct(const AmxProduct&) = delete;
  AmxProduct& operator=(const AmxProduct&) = delete;
  ~AmxProduct() {
    if (configured_rows_ > 0) Tiles::release();
  }

  // Memory is the limit for lower ones.
  static constexpr bool takes_rows(int64_t tile_rows) { return tile_rows >= kLeastRows; }

  // Whole groups by tiles; the ragged last group of K as without AMX. The latter goes on from the
  // sums in y, so that the order of the additions is the same.
  void multiply(const PackedRows& a, int64_t t, int64_t first_k, int64_t count, Panels w,
                Sums sums) {
    const int64_t rows = a.tile_rows(t);
    if (takes_rows(rows) && count >= kQuantGroup) {
      const int64_t groups = count / kQuantGroup;
      configure(rows);
      multiply_groups(rows, {.a = a.words + a.int8_offset(t, first_k),
                             .count = groups,
                             .panels = reinterpret_cast<const int32_t*>(w.words),
                             .panel_words = w.panel_words,
                             .columns = w.count * kPanel,
                             .sums = sums});
      w.words += groups * kPanelGroupWords;
      first_k += groups * kQuantGroup;
      count -= groups * kQuantGroup;
      sums = {sums.y, sums.y_stride, sums.y, sums.y_stride};
    }
    if (count > 0) {
      Int8Product<Instruction>::multiply(a, t, first_k, count, w, sums);
    }
  }

 private:
  using Groups = Tile<Dot>;  // its count is of groups

  static constexpr int kLeastRows = kTileRows / 2 + 1;
  static constexpr int kVectors = 2;  // of columns at once: 2 tiles of 16 with AVX-512, else 1
  static constexpr int64_t kColumns = std::min<int64_t>(kVectors * kLanes, kHalfPanel);
  static constexpr int kColumnTiles = kVectors * kLanes / kColumns;
  static constexpr int64_t kPanelGroupWords = kScaleWords + kGroupWords * kPanel;
  static constexpr int64_t kStepWords = TileConfig::kMaxRowBytes / kWordBytes;
  static_assert(kGroupWords == 2 * kStepWords && kTileRows <= TileConfig::kMaxRows);
  static_assert(vectors_at_once(kLeastRows) == kVectors);

  // Tiles: 0 and 1 are sums, then come those of A, then those of B, of both steps.
  template <int kStep>
  static constexpr int kA = 2 + kStep;
  template <int kStep>
  static constexpr int kB = 4 + 2 * kStep;

  void configure(int64_t rows) {
    // Tiles have the height of the rows that they multiply; most calls of a thread have the same,
    // and reconfiguring zeroes all tiles.
    if (rows == configured_rows_) return;
    configured_rows_ = rows;
    TileConfig config;
    for (int tile = 0; tile < TileConfig::kTiles; ++tile) {
      const bool is_b = tile >= kB<0>, is_a = !is_b && tile >= kA<0>;
      config.rows[tile] = static_cast<uint8_t>(is_b ? kStepWords : rows);
      config.row_bytes[tile] = static_cast<uint16_t>(kWordBytes * (is_a ? kStepWords : kColumns));
    }
    Tiles::configure(config);
  }

  static void multiply_groups(int64_t rows, const Groups& groups) {
    using Function = void (*)(const Groups&);
    static constexpr auto kByRows = []<size_t... I>(std::index_sequence<I...>) {
      return std::array<Function, sizeof...(I)>{&multiply_rows<kLeastRows + int{I}>...};
    }
    (std::make_index_sequence<kTileRows - kLeastRows + 1>());
    kByRows[static_cast<size_t>(rows - kLeastRows)](groups);
  }

  // Two vectors of columns at a time, over all groups of K: the fp32 sums stay in registers.
  template <int R>
  static void multiply_rows(const Groups& groups) {
    for (int64_t first = 0; first < groups.columns / kLanes; first += kVectors) {
      multiply_vectors<R>(groups, first);
    }
  }

  template <int R>
  static HWY_INLINE void multiply_vectors(const Groups& groups, int64_t first) {
    Vector sums[R][kVectors];
    load_sums(groups.sums, first * kLanes, sums);
    const int64_t column = first % kPanelVectors * kLanes;
    const int32_t* a = groups.a;
    const int32_t* w = groups.panels + first / kPanelVectors * groups.panel_words;
    for (int64_t i = 0; i < groups.count; ++i) {
      add_group(a, w, column, sums);
      a += R * (kHeaderWords + kGroupWords);
      w += kPanelGroupWords;
    }
    store_sums(sums, first * kLanes, groups.sums);
  }

  // sums += one group of A times kVectors vectors of columns.
  template <int R>
  static HWY_INLINE void add_group(const int32_t* HWY_RESTRICT a, const int32_t* HWY_RESTRICT w,
                                   int64_t column, Vector (&sums)[R][kVectors]) {
    constexpr int64_t kProductStride = kVectors * kLanes;
    const Words words;
    HWY_ALIGN int32_t products[R * kProductStride];
    Tiles::template zero<0>();
    if constexpr (kColumnTiles == 2) Tiles::template zero<1>();
    add_step<0>(a + kHeaderWords * R, w + kScaleWords + column);
    add_step<1>(a + kHeaderWords * R, w + kScaleWords + column);
    // The int32 sums of a group leave the tiles through memory, since no instruction moves a tile
    // to vectors.
    Tiles::template store<0>(products, kProductStride * kWordBytes);
    if constexpr (kColumnTiles == 2) {
      Tiles::template store<1>(products + kColumns, kProductStride * kWordBytes);
    }
    const Vector scales[] = {load_scales(w, column), load_scales(w, column + kLanes)};
    for (int r = 0; r < R; ++r) {
      const Vector row_scale = hn::BitCast(Floats(), hn::Set(words, a[r]));
      const WordVector correction = hn::Set(words, a[R + r]);
      for (int v = 0; v < kVectors; ++v) {
        const WordVector product = hn::Load(words, products + r * kProductStride + v * kLanes);
        sums[r][v] = add_scaled(sums[r][v], hn::Add(product, correction), row_scale, scales[v]);
      }
    }
  }

  // The tiles of sums += 64 of the group's 128 k.
  template <int kStep>
  static HWY_INLINE void add_step(const int32_t* a, const int32_t* w) {
    constexpr int64_t kRowBytes = kGroupWords * kWordBytes, kWordRowBytes = kPanel * kWordBytes;
    w += kStep * kStepWords * kPanel;
    Tiles::template load<kA<kStep>>(a + kStep * kStepWords, kRowBytes);
    Tiles::template load<kB<kStep>>(w, kWordRowBytes);
    Tiles::template dot<0, kA<kStep>, kB<kStep>>();
    if constexpr (kColumnTiles == 2) {
      Tiles::template load<kB<kStep> + 1>(w + kColumns, kWordRowBytes);
      Tiles::template dot<1, kA<kStep>, kB<kStep> + 1>();
    }
  }

  int64_t configured_rows_ = 0;
};

#if HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64
using BestInt8Product = AmxProduct<AmxTiles, OneByteDot>;
#else
using BestInt8Product = Int8Product<OneByteDot>;
#endif

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_AMX_MATMUL_INL_H_
