// The instructions of Intel AMX and the shapes of tiles that products use, for one instruction set
// (see amx.h). Highway includes this file once per target.

#if defined(NEURONMM_CPU_AMX_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_CPU_AMX_TILES_INL_H_
#undef NEURONMM_CPU_AMX_TILES_INL_H_
#else
#define NEURONMM_CPU_AMX_TILES_INL_H_
#endif

#include "cpu/amx.h"
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
  static HWY_INLINE void dot_bytes() {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
  // C += A · B of pairs of bf16.
  template <int kC, int kA, int kB>
  static HWY_INLINE void dot_bf16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
};
#endif

// Eight tiles as a product of up to 32 rows with one panel uses them: C's four quarters (0 and 1
// the upper rows, 2 and 3 the lower ones), A's two halves (4, 5), and of B, 16 words of each
// column, the columns' two halves (6, 7). An object holds its thread's tile registers: it
// configures them when it needs to, and releases them at its end.
template <class Tiles>
class PanelTiles {
 public:
  static constexpr int64_t kRows = TileConfig::kMaxRows;               // of a tile
  static constexpr int64_t kStepWords = TileConfig::kMaxRowBytes / 4;  // of K at once
  static_assert(kHalfPanel == kStepWords && 2 * kRows == kMaxTileRows);

  PanelTiles() = default;
  PanelTiles(const PanelTiles&) = delete;
  PanelTiles& operator=(const PanelTiles&) = delete;
  ~PanelTiles() {
    if (configured_rows_ > 0) Tiles::release();
  }

  // The upper half of the rows, which is all of up to 16.
  static constexpr int64_t upper_rows(int64_t rows) {
    return rows <= kRows ? rows : (rows + 1) / 2;
  }

  // Tiles have the height of the rows that they multiply. Most calls of a thread have the same, and
  // configuring zeroes all tiles.
  void configure(int64_t rows) {
    if (rows == configured_rows_) return;
    configured_rows_ = rows;
    const int64_t upper = upper_rows(rows), lower = rows > upper ? rows - upper : kRows;
    const int64_t heights[TileConfig::kTiles] = {upper, upper, lower,      lower,
                                                 upper, lower, kStepWords, kStepWords};
    TileConfig config;
    for (int tile = 0; tile < TileConfig::kTiles; ++tile) {
      config.rows[tile] = static_cast<uint8_t>(heights[tile]);
      config.row_bytes[tile] = TileConfig::kMaxRowBytes;
    }
    Tiles::configure(config);
  }

 private:
  int64_t configured_rows_ = 0;
};

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::cpu
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_CPU_AMX_TILES_INL_H_
