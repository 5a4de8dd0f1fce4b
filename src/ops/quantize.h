#pragma once
// Rounding a weight to nearest, as ops/low_bit.h stores it; a group of kQuantGroup columns that
// holds NaN or infinity has the scale NaN.
//
// 8 bits: the scale is max |w| / 127 of the group rounded to bf16, each value the nearest multiple
// of it, so |W - quantized| <= scale / 2 (1.004 times that where the scale was rounded down). 6
// and 4 bits: scales, multipliers and zero points with a small squared error (ops/scale_search.h),
// then the nearest code for each value.

#include <cstddef>
#include <vector>

#include "base/float16.h"
#include "ops/low_bit.h"
#include "ops/weights.h"

namespace neuronmm::ops {

// A rounded weight as it is stored.
struct QuantizedWeight {
  int64_t rows = 0, columns = 0;
  std::vector<int8_t> values;  // [rows, stored_row_bytes(format, columns)]
  std::vector<bf16> scales;    // [rows, groups()]
  LowBitFormat format = {};
  std::vector<uint8_t> multipliers = {};  // [rows, groups_of_row(format, columns)] GroupOf4Bits

  int64_t groups() const { return (columns + kQuantGroup - 1) / kQuantGroup; }
  WeightView view() const;
};

QuantizedWeight stored(const Codes& codes);

// To nearest, of a weight [rows, columns] of a float dtype.
QuantizedWeight quantize(const TensorView& weight, const LowBitFormat& format = {});
// The same of fp64 values [rows, columns].
QuantizedWeight quantize(const double* values, int64_t rows, int64_t columns,
                         const LowBitFormat& format = {});
// The nearest codes of 6 or 4 bits with the scales, multipliers and zero points of `grid`, which
// has the weight's shape; its values are not read.
QuantizedWeight quantize_onto(const TensorView& weight, const QuantizedWeight& grid);

}  // namespace neuronmm::ops
