#pragma once
// The check of a model before it is compressed. compress.cc calls it.

#include "base/result.h"
#include "io/checkpoint.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// Refuses a model that is compressed or quantized already. The tensors are checked too, because a
// config.json may not say that a model is compressed.
Status check_dense_floats(const io::Checkpoint& checkpoint, const io::ModelConfig& config);

}  // namespace neuronmm::compress
