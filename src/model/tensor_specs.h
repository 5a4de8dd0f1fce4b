#pragma once
// The names, shapes and dtypes of the tensors that a Hugging Face folder with a given config holds.
// `synthesize`, `compress` and the conversions from and to GGUF write or check tensors by this
// list.

#include <optional>
#include <string_view>
#include <vector>

#include "io/model_config.h"
#include "io/safetensors_writer.h"

namespace neuronmm::model {

// Returns the tensors in the order in which a forward pass reads them. Matrices are "out x in", and
// a tied LM head has no tensor. An MLP matrix with a rank in the compression record is two factors:
// *_v_proj [r, in] and *_u_proj [out, r]. Pivoted MLPs have the tensors that model/mlp_reader.h
// lists. A mixture has mlp.router and mlp.experts.N.gate_proj, up_proj and down_proj for each
// expert N.
std::vector<io::TensorSpec> tensor_specs(const io::ModelConfig& config);

// Returns whether the tensor is the gain of a norm.
bool is_norm(std::string_view tensor_name);

// Returns whether a linear layer multiplies by the tensor: a projection, a factor, or the LM head.
// A tied LM head is the embedding table.
bool is_linear(std::string_view tensor_name, const io::ModelConfig& config);

// Returns the format of the tensor in a folder of this model with these formats, or nothing if the
// tensor stays floats.
std::optional<LowBitFormat> rounding_of(std::string_view tensor_name, const io::ModelConfig& config,
                                        const io::Quantization& quantization);

// Returns the tensors that the files of a folder hold for one tensor: itself, or its values with
// their scales and groups.
std::vector<io::TensorSpec> stored_specs(const io::TensorSpec& spec,
                                         const std::optional<LowBitFormat>& rounding);

}  // namespace neuronmm::model
