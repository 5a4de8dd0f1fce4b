#pragma once
// Cuts a weight into tiles of kTileRows rows (row_tile.h). low_bit_rounding.h and
// block_rounding/tensor_blocks.h round such tiles.

#include <cstdint>
#include <vector>

#include "compress/linear_algebra/linear_algebra.h"

namespace neuronmm::compress {

// Returns a power of two near `largest`, the largest |value| of a weight, or 1 if it is 0. Tiles
// are in units of it, so that fp32 can hold all squares.
double tile_unit(double largest);

// Returns rows [first, first + count) of w_t / unit as a tile [columns, kTileRows] for count <=
// kTileRows. Missing rows are 0.
std::vector<float> tile_of(const DoubleMatrix& w_t, double unit, int64_t first, int64_t count);

}  // namespace neuronmm::compress
