#pragma once
// Finds one weight of a checkpoint, stored in a float dtype or rounded to 8, 6 or 4 bits, and
// checks it. All readers of model folders use it.

#include <string>

#include "base/result.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "ops/weights.h"

namespace neuronmm::model {

// Returns the weight `name` with exactly this shape. It has a float dtype, or the rounded format
// that config.quantization gives it, with scales and groups (io/quantization.h). The result points
// into the checkpoint.
//
// Errors are those of Checkpoint::require, and for rounded weights:
// - values, scales or groups that are missing or have another dtype or shape;
// - scales that are negative or not finite;
// - codes of 6 bits or groups of 4 bits with values outside those of the format;
// - rounded values in a folder whose config.json declares none.
Result<ops::WeightView> require_weight(const io::Checkpoint& checkpoint,
                                       const io::ModelConfig& config, const std::string& name,
                                       const Shape& shape);

}  // namespace neuronmm::model
