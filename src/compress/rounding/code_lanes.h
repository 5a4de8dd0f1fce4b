#pragma once
// Types for rounding kLanes rows of a weight together, one row per vector lane. All rows go through
// the same operations, so a column of a tile is an array of kLanes floats. The rounding kernels
// (group_fit-inl.h, row_rounding-inl.h) use them.

#include <cstdint>

namespace neuronmm::compress {

// The number of rows that are rounded together. It is large enough for efficient matrix products,
// and small enough that the arrays of one group stay in the first-level cache.
constexpr int64_t kLanes = 128;

// The smallest and the largest code of a format.
struct CodeRange {
  float lowest = 0, highest = 15;
};

// 1.5 · 2^23. Adding it to a small number and subtracting it again rounds to an integer, with the
// same few instructions on every processor.
constexpr float kRoundingBias = 12582912.0F;

// The grid of each lane: value = step · code - zero.
struct LaneGrid {
  alignas(64) float step[kLanes] = {};
  alignas(64) float inverse[kLanes] = {};  // 1 / step; 0 if the step is 0
  alignas(64) float zero[kLanes] = {};

  void set(int64_t lane, float new_step, float new_zero) {
    step[lane] = new_step;
    inverse[lane] = new_step > 0 ? 1.0F / new_step : 0.0F;
    zero[lane] = new_zero;
  }
};

}  // namespace neuronmm::compress
