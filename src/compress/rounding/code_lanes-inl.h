// What is done to a column of codes, for one instruction set. Highway includes this file once per
// target; the compiler makes vectors of the loops over lanes.

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

// Of one lane.
inline float nearest_code(float target, const LaneGrid& grid, int64_t lane, CodeRange range) {
  const float steps = (target + grid.zero[lane]) * grid.inverse[lane];
  const float clamped = std::min(std::max(steps, range.lowest), range.highest);
  return (clamped + kRoundingBias) - kRoundingBias;
}

inline float grid_value(float code, const LaneGrid& grid, int64_t lane) {
  return grid.step[lane] * code - grid.zero[lane];
}

// to += factor · from, a column.
inline void add_column(float factor, const float* __restrict from, float* __restrict to) {
  for (int64_t r = 0; r < kLanes; ++r) to[r] += factor * from[r];
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::compress
HWY_AFTER_NAMESPACE();

#endif  // NEURONMM_COMPRESS_CODE_LANES_INL_H_
