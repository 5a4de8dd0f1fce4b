#pragma once
// The names of tensors in GGUF files. The importer (weight_map.cc) and the exporter (src/gguf_out)
// use them.

#include <cstdint>
#include <string>
#include <string_view>

#include "io/families/family.h"
#include "io/model_config.h"

namespace neuronmm::gguf {

// Tells where a file has a tensor of the folder.
struct TensorPlace {
  std::string name;
  // Not null if the file's tensor holds the rows of several modules.
  const io::SlicedModule* sliced = nullptr;
  // The module of the folder's tensor: "mlp.up_proj".
  std::string_view module = {};
  // The expert whose part of the file's tensor it is, or -1; and the name of the tensor in files
  // that have one for each expert.
  int64_t expert = -1;
  std::string alone = {};
};

// Translates the name of a tensor: "model.layers.3.mlp.up_proj.weight" is "blk.3.ffn_up.weight".
// `folder_name` is one of model/tensor_specs, and the result refers to it.
TensorPlace place_of(std::string_view folder_name, const io::ModuleNames& names);

// Returns the number of heads in which the rows of the tensor lie if RoPE turns neighbouring pairs,
// and 0 for tensors without heads.
int64_t interleaved_heads(std::string_view folder_name, const io::ModelConfig& config);

}  // namespace neuronmm::gguf
