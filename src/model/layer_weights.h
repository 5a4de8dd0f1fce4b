#pragma once
// The weights of one decoder layer, found in a checkpoint by Hugging Face's tensor names. Errors
// name the tensor, the expected shape and the shape found.

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "ops/weights.h"

namespace neuronmm::model {

// Returns the prefix of all tensor names except lm_head.weight: "model.", or "" in folders that
// were exported without it.
std::string tensor_prefix(const io::Checkpoint& checkpoint);

// Checks that the LM head is unambiguous. An error is:
// - an untied model without lm_head.weight;
// - a model whose config.json ties the LM head to the embedding table, but whose checkpoint has a
//   float lm_head.weight with other values. Versions of transformers read such a folder
//   differently: 4 takes the table, 5 the tensor.
Status check_head(const io::Checkpoint& checkpoint, const io::ModelConfig& config);

// Returns the gains of a norm as fp32, with the config's gain_offset. The result is empty if the
// model has no such norm.
std::vector<float> norm_gains(const TensorView& norm, const io::ModelConfig& config);

// The weights of one layer. Names and shapes have been checked. A checkpoint with more weights in
// the layer than the config describes (an unknown bias, for example) is refused.
struct LayerWeights {
  int64_t layer = 0;  // the number of the layer in the model
  // The norms [H] of what attention and the MLP read; empty without input_norms.
  TensorView input_norm, post_attention_norm;
  // The norms [H] of what attention and the MLP return; empty without output_norms.
  TensorView attention_output_norm, mlp_output_norm;
  // [head_dim], or the whole width of q and of k; empty without qk_norm.
  TensorView q_norm, k_norm;
  // [heads], or empty without attention_sinks.
  TensorView sinks;
  ops::LinearWeight q, k, v, o;
  // The MLP of a layer that is no mixture of experts; otherwise empty.
  ops::MlpWeight mlp;
  // Set if the layer is a mixture of experts.
  std::optional<ops::MixtureWeight> mixture;
};
// Errors of mixtures name what does not fit: a router with a row for an expert that does not exist,
// experts that are missing, and experts beyond the config's number.
Result<LayerWeights> layer_weights(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                                   int64_t layer);

}  // namespace neuronmm::model
