#pragma once
// One weight of a checkpoint, of a float dtype or int8.

#include <string>

#include "base/result.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "ops/weights.h"

namespace neuronmm::model {

// The weight of this name, of a float dtype or int8 with its scales (io/quantization.h). Errors
// like Checkpoint::require's, and about the scales: missing, of another dtype or shape, not finite.
Result<ops::WeightView> require_weight(const io::Checkpoint& checkpoint,
                                       const io::ModelConfig& config, const std::string& name,
                                       const Shape& shape);

}  // namespace neuronmm::model
