#pragma once
// One weight of a checkpoint, of a float dtype or of 8, 6 or 4 bits.

#include <string>

#include "base/result.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "ops/weights.h"

namespace neuronmm::model {

// The weight of this name, of a float dtype, or as config.quantization says with its scales and
// groups (io/quantization.h). Errors like Checkpoint::require's, and about scales and groups:
// missing, of another dtype or shape; scales that are not finite; values beyond those of the
// format.
Result<ops::WeightView> require_weight(const io::Checkpoint& checkpoint,
                                       const io::ModelConfig& config, const std::string& name,
                                       const Shape& shape);

}  // namespace neuronmm::model
