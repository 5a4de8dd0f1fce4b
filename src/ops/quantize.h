#pragma once
// Rounding a weight to int8, as ops/weights.h defines it: symmetric, one scale per row and
// kQuantGroup columns. The scale is max |w| / 127 of the group rounded to bf16, each value the
// nearest multiple of it, so |W - quantized| <= scale / 2 (1.004 times that where the scale was
// rounded down). A group that holds NaN or infinity has the scale NaN.

#include <vector>

#include "base/float16.h"
#include "ops/weights.h"

namespace neuronmm::ops {

struct QuantizedWeight {
  int64_t rows = 0, columns = 0;
  std::vector<int8_t> values;  // [rows, columns]
  std::vector<bf16> scales;    // [rows, groups()]

  int64_t groups() const { return (columns + kQuantGroup - 1) / kQuantGroup; }
  WeightView view() const;
};

QuantizedWeight quantize(const TensorView& weight);  // [rows, columns], a float dtype
// The same of fp64 values [rows, columns].
QuantizedWeight quantize(const double* values, int64_t rows, int64_t columns);

}  // namespace neuronmm::ops
