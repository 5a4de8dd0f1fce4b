#pragma once
// The weights of one decoder layer, found in a checkpoint by the tensor names of Hugging Face.
//
// Letters: H hidden_size.

#include <string>

#include "base/result.h"
#include "base/tensor.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "ops/weights.h"

namespace neuronmm::model {

// What the names of all tensors but lm_head.weight begin with: "model.", or "" in folders exported
// without it.
std::string tensor_prefix(const io::Checkpoint& checkpoint);

// The weight of this name, of a float dtype or int8 with its scales (io/quantization.h). Errors
// like Checkpoint::require's, and about the scales: missing, of another dtype or shape, not finite.
Result<ops::WeightView> require_weight(const io::Checkpoint& checkpoint,
                                       const io::ModelConfig& config, const std::string& name,
                                       const Shape& shape);

// The weights of one layer in the checkpoint, with their names and shapes checked. A checkpoint
// that has more weights in the layer than the config describes (an unknown bias, say) is refused.
struct LayerWeights {
  TensorView input_norm, post_attention_norm;  // [H]
  TensorView q_norm, k_norm;                   // [head_dim]; empty without qk_norm
  ops::LinearWeight q, k, v, o;
  ops::MlpWeight mlp;
};
Result<LayerWeights> layer_weights(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                                   int64_t layer);

}  // namespace neuronmm::model
