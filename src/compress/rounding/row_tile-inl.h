// Operations on one column of a tile of kTileRows rows, for one instruction set. Highway includes
// this file once per target. The compiler vectorizes the loops over rows.

#if defined(NEURONMM_COMPRESS_ROW_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_COMPRESS_ROW_TILE_INL_H_
#undef NEURONMM_COMPRESS_ROW_TILE_INL_H_
#else
#define NEURONMM_COMPRESS_ROW_TILE_INL_H_
#endif

#include <algorithm>
#include <array>

#include "compress/rounding/row_tile.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::compress {
namespace HWY_NAMESPACE {

// One number for each row of a tile.
using RowValues = std::array<float, kTileRows>;

// Returns the uneven code that is nearest to `steps`.
inline float nearest_uneven_code(float steps, CodeRange range) {
  float code = range.uneven[0];
  for (int i = 1; i < kUnevenCodes; ++i) {
    const float below = range.uneven[i - 1], above = range.uneven[i];
    code = 2 * steps > below + above ? above : code;
  }
  return code;
}

// Returns the code of `row` whose value is nearest to `target`, as a whole number in fp32.
inline float nearest_code(float target, const TileGrid& grid, int64_t row, CodeRange range) {
  const float steps = (target + grid.offset[row]) * grid.inverse[row];
  if (range.uneven != nullptr) return nearest_uneven_code(steps, range);
  const float clamped = std::min(std::max(steps, range.lowest), range.highest);
  return (clamped + kRoundingBias) - kRoundingBias;
}

// Returns the value that a code stands for.
inline float grid_value(float code, const TileGrid& grid, int64_t row) {
  return grid.step[row] * code - grid.offset[row];
}

// Computes to += factor · from for one column, [kTileRows] fp32.
inline void add_column(float factor, const float* __restrict from, float* __restrict to) {
  for (int64_t r = 0; r < kTileRows; ++r) to[r] += factor * from[r];
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::compress
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_COMPRESS_ROW_TILE_INL_H_
