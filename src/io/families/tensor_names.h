#pragma once
// Translates the names of tensors in a folder to the canonical ones (family.h), and back.
// Checkpoint and what writes folders are the callers.

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "io/model_config.h"
#include "io/safetensors_writer.h"

namespace neuronmm::io {

// Tensors by name. `owned` holds the bytes of those that are no views of the file, `owned_codes`
// those whose codes are in another order or in MXFP4, and `owned_formats` the formats of others.
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

// Gives the tensors of each group their canonical names, as use_canonical_names() does for a
// folder. The groups are parts of an adapter, whose names are those of the model that it was
// trained for. If the model is a GGUF file, `gguf_architecture` names the architecture of the file,
// whose family may differ from that of its config.json. Tensors of parts that are not run are
// dropped. Messages begin with `source`.
Status use_canonical_names(const std::filesystem::path& folder, std::string_view gguf_architecture,
                           const std::filesystem::path& source, std::vector<NamedTensors>& groups);

// Returns the name that a folder of this architecture has for a tensor: its own name, except that
// matrices stay split. Folders whose weights are compressed or rounded have these names.
std::string stored_name(Architecture architecture, std::string_view canonical);

// A tensor of a module whose rows are stored inside those of another one.
struct FusedModule {
  std::string name;             // of the whole tensor
  int64_t part = 0, parts = 0;  // which of its parts the tensor is, and how many it has
};
// Returns the tensor that holds this one in folders of the published class, or nothing if it is
// stored by itself.
std::optional<FusedModule> fused_module(Architecture architecture, std::string_view canonical);

// A matrix or bias of an expert that is stored inside a tensor of all experts of its layer. The
// fields that have the same names as those of StackedExperts (family.h) mean the same.
struct StackedModule {
  std::string name;  // of the whole tensor
  int64_t expert = 0, part = 0, parts = 0;
  bool input_first = false, interleaved = false;
};
// Returns the tensor that holds this one in folders of the published class, or nothing if it is
// stored by itself.
std::optional<StackedModule> stacked_module(Architecture architecture, std::string_view canonical);

// A tensor of a folder whose weights are plain floats. Its data are those of `parts` canonical
// tensors, one after the other.
struct StoredTensor {
  TensorSpec spec;
  int64_t parts = 1;
};

// Returns the tensors that a folder of this architecture has for canonical ones, in their order.
// The rows of a fused matrix follow each other in `canonical`, or else they stay split.
std::vector<StoredTensor> stored_tensors(Architecture architecture,
                                         std::span<const TensorSpec> canonical);

// Returns the name without the prefix of the language model in a multimodal model, so that it
// begins with "model." or "lm_head.".
std::string without_part_prefix(std::string_view name);

}  // namespace neuronmm::io
