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

// An error where config.json ties the LM head to the embedding table and the checkpoint has a float
// lm_head.weight of other values: versions of transformers read such folders differently (4 takes
// the table, 5 the tensor). Also where it does not and there is no lm_head.weight.
Status check_head(const io::Checkpoint& checkpoint, const io::ModelConfig& config);

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
