#pragma once
// Rounds a weight anew after every step of its training.
//
// With 8 bits the weight is rounded as in ops::quantize, so that the scale follows the largest
// value. With 6 and 4 bits the weight is rounded to the nearest value of a grid that stays. A
// search for new scales, multipliers and zero points would take longer than the step itself, as
// measured in docs/design/training.md. The grid comes from the folder, where a calibration text may
// have chosen it. For a folder of floats it is the grid that rounding finds at the start. Values
// that training moves beyond the grid are rounded to its ends.

#include "ops/quantize.h"

namespace neuronmm::finetune {

// The scales and groups of one weight, and the rounding onto them.
class KeptGrid {
 public:
  KeptGrid() = default;
  // Takes the grid of a weight that is rounded already, or finds a grid of `format` for a float
  // weight.
  KeptGrid(const ops::WeightView& weight, const LowBitFormat& format);

  ops::QuantizedWeight round(const TensorView& weight) const;

 private:
  // The format, scales and multipliers. The values are empty.
  ops::QuantizedWeight grid_;
};

}  // namespace neuronmm::finetune
