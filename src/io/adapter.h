#pragma once
// Merges LoRA adapters into models while they are opened. A program chooses the adapter of a model
// with use_adapter(). Whatever opens this model afterwards sees the merged tensors, because
// Checkpoint::open() calls merge_adapter(). Nothing is written, and merged weights take no memory
// until a backend packs them (merged_tensor.h).
//
// What is merged: pairs of matrices (LoRA), with magnitudes or without them (DoRA), of linear
// layers and of embedding tables, biases, and whole tensors ("modules_to_save"). The tensors are
// named as in the model that was trained, and are translated to the canonical names, so that an
// adapter of fused matrices fits a GGUF file in which they are split.
//
// PEFT trains the LM head of a tied model apart from the embedding table. If an adapter changes one
// of the two, the merged model has both tables.

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "io/adapter_file.h"
#include "io/merged_tensor.h"

namespace neuronmm::io {

// Makes Checkpoint::open() merge the adapter in the folder `adapter` into the model at `model`, a
// folder or a GGUF file. A later call replaces the adapter. Call it before the model is opened.
void use_adapter(const std::filesystem::path& model, const std::filesystem::path& adapter);
// Returns the adapter that was chosen for the model.
std::optional<std::filesystem::path> adapter_of(const std::filesystem::path& model);

// An adapter whose tensors are merged. It owns the memory of the merged tensors.
struct MergedAdapter {
  AdapterFile adapter;
  std::vector<std::unique_ptr<const MergedTensor>> tensors;
  std::vector<std::shared_ptr<const std::vector<std::byte>>> owned;
  std::set<std::string> changed;  // canonical names of the tensors
  bool unties = false;            // the model was tied, and has an LM head of its own now
  std::string text;               // one sentence for the user
};

// Replaces the tensors of the model that the adapter changes. `tensors` have canonical names, and
// `gguf_architecture` is that of use_canonical_names(). Fails, naming the adapter's file and
// tensor, if a tensor of the adapter matches none of the model, has another shape, or belongs to
// weights of few bits in our own formats.
Result<std::shared_ptr<const MergedAdapter>> merge_adapter(
    const std::filesystem::path& adapter, const std::filesystem::path& model,
    const std::string& gguf_architecture, std::map<std::string, TensorView>& tensors);

}  // namespace neuronmm::io
