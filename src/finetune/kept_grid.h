#pragma once
// Rounding a weight anew after every step of its training.
//
// 8 bits: as ops::quantize, so that the scale follows the largest value. 6 and 4 bits: to the
// nearest of a grid that stays, because the search for scales, multipliers and zero points takes
// longer than the step: measured on a busy core of Zen 4, 290 to 570 ns per weight of 4 bits and 50
// of 6, where the nearest code takes 5 to 9. The grid is that of the folder, which a text may have
// chosen; of a folder of floats the one that rounding them finds. Values that training moves beyond
// it are rounded to its ends.

#include "ops/quantize.h"

namespace neuronmm::finetune {

class KeptGrid {
 public:
  KeptGrid() = default;
  // Of a weight that is rounded already, or of a float one that is to become `format`.
  KeptGrid(const ops::WeightView& weight, const LowBitFormat& format);

  ops::QuantizedWeight round(const TensorView& weight) const;

 private:
  ops::QuantizedWeight grid_;  // without values
};

}  // namespace neuronmm::finetune
