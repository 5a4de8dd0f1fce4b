#pragma once
// Rounds a weight anew after every step of its training. `finetune` trains whole models so, and
// `quantize` layers (compress/reconstruction).
//
// With 8 bits the weight is rounded as in ops::quantize, so that the scale follows the largest
// value. With 6 and 4 bits the weight is rounded to the nearest value of a grid that stays. A
// search for new scales, multipliers and zero points would take longer than the step itself, as
// measured in docs/design/training.md. The grid comes from the folder, where a calibration text may
// have chosen it. For a folder of floats it is the grid that rounding finds at the start. Values
// that training moves beyond the grid are rounded to its ends.

#include <optional>

#include "base/result.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "io/quantization.h"
#include "ops/quantize.h"
#include "training/tape.h"

namespace neuronmm::training {

// The scales and groups of one weight, and the rounding onto them.
class KeptGrid {
 public:
  KeptGrid() = default;
  // Takes the grid of a weight that is rounded already, or finds a grid of `format` for a float
  // weight.
  KeptGrid(const ops::WeightView& weight, const LowBitFormat& format);

  const LowBitFormat& format() const { return grid_.format; }
  ops::QuantizedWeight round(const TensorView& weight) const;
  ops::QuantizedWeight round(const Rows<float>& weight) const;
  // Returns the values that the rounded weight stands for (Parameter::rounding).
  Rows<float> rounded(const Rows<float>& weight) const;
  // Returns weights that round to `values` and are near `floats`, of the same shape. `values` are
  // on the grid, of 6 or 4 bits. A weight whose float rounds to another value lies between the two,
  // so that a small step can change its code.
  Rows<float> near_floats(const Rows<float>& values, const Rows<float>& floats) const;

 private:
  // The format, scales and multipliers. The values are empty.
  ops::QuantizedWeight grid_;
};

// Returns the values of a rounded weight.
Rows<float> values_of(const ops::WeightView& rounded);

// Returns the grid of a matrix, or nothing if its tensor is not rounded in these formats. Errors
// are those of model::require_weight.
Result<std::optional<KeptGrid>> find_grid(const Parameter<float>& parameter,
                                          const io::Checkpoint& checkpoint,
                                          const io::ModelConfig& config,
                                          const io::Quantization& quantization);

}  // namespace neuronmm::training
