#pragma once
// Rows of a weight that are rounded side by side, a row per lane of the processor's vectors: what
// is done to a column is the same for all of them. A column of a tile is kLanes floats.

#include <cstdint>

namespace neuronmm::compress {

// Rows at a time: deep enough for matrix products, and the arrays of a group stay in the first
// cache.
constexpr int64_t kLanes = 128;

struct CodeRange {
  float lowest = 0, highest = 15;
};

// 1.5 · 2^23: a small number added to it is rounded to an integer, on every processor with the same
// few instructions.
constexpr float kRoundingBias = 12582912.0F;

// value = step · code - zero, a grid per lane.
struct LaneGrid {
  alignas(64) float step[kLanes] = {};
  alignas(64) float inverse[kLanes] = {};  // of the step; 0 for a step of 0
  alignas(64) float zero[kLanes] = {};

  void set(int64_t lane, float new_step, float new_zero) {
    step[lane] = new_step;
    inverse[lane] = new_step > 0 ? 1.0F / new_step : 0.0F;
    zero[lane] = new_zero;
  }
};

}  // namespace neuronmm::compress
