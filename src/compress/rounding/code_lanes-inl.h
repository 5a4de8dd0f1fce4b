// Operations on one column of a tile of kLanes rows, for one instruction set. Highway includes this
// file once per target. The compiler vectorizes the loops over lanes.

#if defined(NEURONMM_COMPRESS_CODE_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURONMM_COMPRESS_CODE_LANES_INL_H_
#undef NEURONMM_COMPRESS_CODE_LANES_INL_H_
#else
#define NEURONMM_COMPRESS_CODE_LANES_INL_H_
#endif

#include <algorithm>

#include "compress/rounding/code_lanes.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace neuronmm::compress {
namespace HWY_NAMESPACE {

// Returns the code of `lane` whose value is nearest to `target`, as a whole number in fp32.
inline float nearest_code(float target, const LaneGrid& grid, int64_t lane, CodeRange range) {
  const float steps = (target + grid.zero[lane]) * grid.inverse[lane];
  const float clamped = std::min(std::max(steps, range.lowest), range.highest);
  return (clamped + kRoundingBias) - kRoundingBias;
}

// Returns the value that a code stands for.
inline float grid_value(float code, const LaneGrid& grid, int64_t lane) {
  return grid.step[lane] * code - grid.zero[lane];
}

// Computes to += factor · from for one column, [kLanes] fp32.
inline void add_column(float factor, const float* __restrict from, float* __restrict to) {
  for (int64_t r = 0; r < kLanes; ++r) to[r] += factor * from[r];
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::compress
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_COMPRESS_CODE_LANES_INL_H_
