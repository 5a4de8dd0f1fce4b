#pragma once
// Finds the model that a user names: a folder, a GGUF file, or a model in the cache of Hugging
// Face's programs. Nothing is downloaded. The layout of the cache is that of huggingface_hub 1.0
// ("Manage your cache"):
//
//   HUB/models--ORG--NAME/refs/main                 the revision of the last download
//   HUB/models--ORG--NAME/snapshots/REVISION/...    its files, as links
//
// HUB is $HF_HUB_CACHE, or $HF_HOME/hub, or $XDG_CACHE_HOME/huggingface/hub, or
// ~/.cache/huggingface/hub.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::io {

// Returns the path of a model's folder or file.
// - A path that exists is returned. For a folder with one GGUF model and no config.json, that is
//   the path of the model's file.
// - ORG/NAME is looked up in the cache, as are ORG/NAME/FILE.gguf and ORG/NAME:TAG, which is the
//   model's one GGUF file whose name contains TAG, such as Q4_K_M.
// - Anything else is returned as it is. Readers then fail, with missing_model_hint().
std::filesystem::path find_model(const std::string& name);

// Returns whether the path is a folder or a GGUF file, which readers of models open.
bool may_be_model(const std::filesystem::path& path);

// Returns what to do if there is no model of this name: the end of a message that begins "there is
// no such folder". Empty if the name cannot be that of a model in the cache.
std::string missing_model_hint(const std::string& name);

// Returns the names of a folder's GGUF models. Of a split model it is the first file, and files of
// image encoders (mmproj) are left out.
std::vector<std::string> gguf_models_in(const std::filesystem::path& folder);

}  // namespace neuronmm::io
