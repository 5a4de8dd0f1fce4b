#pragma once
// Chooses a block type of GGUF for each tensor of a model, as llama.cpp's llama-quantize does.

#include <map>
#include <string>
#include <vector>

#include "gguf_out/block_encoder.h"
#include "io/model_config.h"
#include "io/safetensors_writer.h"

namespace neuronmm::compress {

// The type of each tensor, by its name in a model folder.
using BlockTypes = std::map<std::string, gguf_out::BlockType>;

// A tensor whose rows the wanted type does not fit.
struct OtherType {
  std::string tensor;
  gguf_out::BlockType wanted, taken;
};

struct ChosenTypes {
  BlockTypes types;
  std::vector<OtherType> others;  // in the order of `tensors`
};

// Returns the types that `llama-quantize --imatrix` gives the matrices among `tensors` if it is
// called with the name of `named`. Q4_K and Q5_K stand for its Q4_K_M and Q5_K_M. All other tensors
// become F32. `tensors` are those of a dense model, named and shaped as in its folder
// (model/tensor_specs.h).
ChosenTypes choose_types(const std::vector<io::TensorSpec>& tensors, const io::ModelConfig& config,
                         gguf_out::BlockType named);

// Returns the type that takes the place of `wanted` for rows of `columns` weights: `wanted` itself
// if it fits, otherwise the one that llama-quantize takes.
gguf_out::BlockType type_for_row(gguf_out::BlockType wanted, int64_t columns);

}  // namespace neuronmm::compress
