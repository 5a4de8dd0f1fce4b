#pragma once
// Rounds weights to the nearest values of the formats of ops/low_bit.h, without looking at
// activations. The commands `quantize`, `compress`, `fit` and `finetune` make rounded weights with
// it. Rounding with a calibration text is compress/rounding/low_bit_rounding.h.
//
// No function returns an error. If a group of kQuantGroup columns holds NaN or infinity, the scale
// of the group is NaN, and callers have to look for such scales. Arguments that do not fit together
// are programming errors (NMM_CHECK): a dtype that is not a float, or sizes that differ.
//
// In 8 bits, the scale is max |w| / 127 of the group, rounded to bf16. Each value becomes the
// nearest multiple of the scale, so that |W - quantized| <= scale / 2. The bound is 1.004 times as
// large where the scale was rounded down.
//
// In 6 and 4 bits, the scales, multipliers and zero points are chosen for a small squared error
// (ops/scale_search.h). Each value then becomes the value of the nearest code.

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

// Packs codes as they are stored. NMM_CHECK verifies that `codes` has a scale and a multiplier for
// every group.
QuantizedWeight pack_codes(const Codes& codes);

// Rounds a weight [rows, columns] of a float dtype.
QuantizedWeight quantize(const TensorView& weight, const LowBitFormat& format = {});
// Rounds fp64 values [rows, columns].
QuantizedWeight quantize(const double* values, int64_t rows, int64_t columns,
                         const LowBitFormat& format = {});
// Rounds a weight of a float dtype to the scales, multipliers and zero points of `grid`, which has
// the same shape and 6 or 4 bits (NMM_CHECK verifies this). The codes of `grid` are not read.
QuantizedWeight quantize_onto(const TensorView& weight, const QuantizedWeight& grid);

}  // namespace neuronmm::ops
