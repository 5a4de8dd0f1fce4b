#pragma once
// Translates the names of tensors in a folder to the canonical ones (family.h), and back.
// Checkpoint and what writes folders are the callers.

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "io/model_config.h"

namespace neuronmm::io {

// Tensors by name. `owned` holds the bytes of those that are no views of the file,
// `owned_codes` those whose codes are in another order or in MXFP4, and `owned_formats` the formats
// of others.
struct NamedTensors {
  std::map<std::string, TensorView> tensors;
  std::vector<std::shared_ptr<const std::vector<std::byte>>> owned;
  std::vector<std::shared_ptr<const CodedValues>> owned_codes = {};
  std::vector<std::shared_ptr<const ForeignFormat>> owned_formats = {};
  bool has_mxfp4 = false;
};

// Gives the tensors their canonical names, by the config.json of the folder:
// - the language model of a multimodal model loses its prefix, and all other parts are dropped;
// - modules are renamed;
// - a fused matrix becomes views of its rows, and a tensor with the matrices of all experts of a
//   layer becomes one tensor per matrix and expert (expert_names.h);
// - the rows of q and k whose RoPE turns neighbouring elements are copied into another order.
// A folder without a readable config.json is left as it is. Fails if a fused matrix has other rows
// than config.json describes, if two tensors get one name, or if experts are both in one tensor and
// one by one.
Status use_canonical_names(const std::filesystem::path& folder, NamedTensors& tensors);

// Returns the name that a folder of this architecture has for a tensor: its own name, except that
// matrices stay split.
std::string stored_name(Architecture architecture, std::string_view canonical);

// Returns the name without the prefix of the language model in a multimodal model, so that it
// begins with "model." or "lm_head.".
std::string without_part_prefix(std::string_view name);

}  // namespace neuronmm::io
