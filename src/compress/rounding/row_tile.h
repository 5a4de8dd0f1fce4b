#pragma once
// Declares types for rounding kTileRows rows of a weight together, which are called a tile. All
// rows go through the same operations, so a column of a tile is an array of kTileRows floats, and
// the compiler turns a loop over them into vector instructions.
//
// Rounding with a calibration text uses these types. low_bit_rounding.cc cuts a weight into tiles
// of kTileRows rows, RowGrids (row_grids.h) holds their scales, and the kernels (group_fit-inl.h,
// row_rounding-inl.h) round them. Nothing here checks its arguments.

#include <cstdint>

namespace neuronmm::compress {

// The number of rows of a tile, which is larger than the vectors of any processor. It is large
// enough for efficient matrix products, and small enough that the arrays of one group stay in the
// first-level cache. Assumed. Missing rows of the last tile are zeros.
constexpr int64_t kTileRows = 128;

// The number of codes of a format whose codes are not all integers between two numbers.
constexpr int kUnevenCodes = 16;

// The smallest and the largest code of a format. All integers between them are codes, unless
// `uneven` lists kUnevenCodes codes in rising order.
struct CodeRange {
  float lowest = 0, highest = 15;
  const float* uneven = nullptr;
};

// 1.5 · 2^23. Adding it to a number of at most ±2^22 and subtracting it again rounds the number to
// the nearest integer, with the same few instructions on every processor. All codes are far
// smaller.
constexpr float kRoundingBias = 12582912.0F;

// The grid of each row of a tile: value = step · code - offset. The offset is the zero point times
// the step. Steps may be negative.
struct TileGrid {
  alignas(64) float step[kTileRows] = {};
  alignas(64) float inverse[kTileRows] = {};  // 1 / step; 0 if the step is 0
  alignas(64) float offset[kTileRows] = {};

  void set(int64_t row, float new_step, float new_offset) {
    step[row] = new_step;
    inverse[row] = new_step != 0 ? 1.0F / new_step : 0.0F;
    offset[row] = new_offset;
  }
};

}  // namespace neuronmm::compress
