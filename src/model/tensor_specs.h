#pragma once
// The tensors that a Hugging Face folder of a config holds: names, shapes, and the config's dtype.

#include <string_view>
#include <vector>

#include "io/model_config.h"
#include "io/safetensors_writer.h"

namespace neuronmm::model {

// In the order of the computation. Matrices are "out x in". A tied LM head has no tensor. MLP
// matrices with a rank in the compression record are two factors: *_v_proj [r, in] and *_u_proj
// [out, r].
std::vector<io::TensorSpec> tensor_specs(const io::ModelConfig& config);

// Whether the tensor is the gain of a norm.
bool is_norm(std::string_view tensor_name);

// Whether a linear layer multiplies by the tensor: a projection, a factor, the LM head (which is
// the embedding table where the two are tied).
bool is_linear(std::string_view tensor_name, const io::ModelConfig& config);

}  // namespace neuronmm::model
