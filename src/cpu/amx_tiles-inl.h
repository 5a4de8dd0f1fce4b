// The instructions of Intel AMX and the shapes of the tiles that products use, for one instruction
// set (see amx.h). Highway includes this file once per target.

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
// The instructions are written as assembly, because Highway does not ask the compiler for AMX. They
// are volatile, because the compiler does not know the tiles that they change.
struct AmxTiles {
  static HWY_INLINE void configure(const TileConfig& config) {
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  static HWY_INLINE void release() { asm volatile("tilerelease"); }
  template <int kTile>
  static HWY_INLINE void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  // The tile's rows are `stride` bytes apart in memory.
  template <int kTile>
  static HWY_INLINE void load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  static HWY_INLINE void store(void* to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
  }
  // C += A · B, with signed bytes in A and unsigned bytes in B.
  template <int kC, int kA, int kB>
  static HWY_INLINE void dot_bytes() {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
  // C += A · B, with signed bytes in both.
  template <int kC, int kA, int kB>
  static HWY_INLINE void dot_signed_bytes() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
  // C += A · B, with pairs of bf16.
  template <int kC, int kA, int kB>
  static HWY_INLINE void dot_bf16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
};
#endif

// Eight tile registers for the product of up to 32 rows with one panel. The first four tiles are
// the quarters of C: tiles 0 and 1 for the upper rows, 2 and 3 for the lower ones. Tiles 4 and 5
// are the two halves of A. Tiles 6 and 7 are the two halves of B's columns, 16 words of each
// column. An object holds its thread's tile registers: it configures them when needed and releases
// them in its destructor.
template <class Tiles>
class PanelTiles {
 public:
  static constexpr int64_t kRows = TileConfig::kMaxRows;               // rows of a tile
  static constexpr int64_t kStepWords = TileConfig::kMaxRowBytes / 4;  // words of K in one step
  static_assert(kHalfPanel == kStepWords && 2 * kRows == kMaxTileRows);

  PanelTiles() = default;
  PanelTiles(const PanelTiles&) = delete;
  PanelTiles& operator=(const PanelTiles&) = delete;
  ~PanelTiles() {
    if (configured_rows_ > 0) Tiles::release();
  }

  // Returns the number of upper rows. Up to 16 rows are all upper rows.
  static constexpr int64_t upper_rows(int64_t rows) {
    return rows <= kRows ? rows : (rows + 1) / 2;
  }

  // Configures the tiles for this number of rows, unless they are already. Most calls of a thread
  // have the same number, and configuring clears all tiles.
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
