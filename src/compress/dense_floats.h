#pragma once
// Checks a model before it is compressed. compress.cc calls it.

#include "base/result.h"
#include "io/checkpoint.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// Fails if the model is compressed or quantized already, or if a tensor of a layer is missing or
// has another shape. The tensors are looked at, because a config.json may not say that a model is
// compressed.
Status check_dense_floats(const io::Checkpoint& checkpoint, const io::ModelConfig& config);

}  // namespace neuronmm::compress
