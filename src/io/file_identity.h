#pragma once
// What tells one state of an input from another without reading it: path, size, inode and times of
// change. For work that goes on where an earlier run stopped, and for noticing that an input was
// changed while it was read.

#include <filesystem>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace neuronmm::io {

nlohmann::ordered_json file_identity(const std::filesystem::path& path);
// Of every *.safetensors and *.json in the folder.
Result<nlohmann::ordered_json> folder_identity(const std::filesystem::path& folder);
// An error that names the first file whose identity is not as it was in `before`.
Status check_unchanged(const std::filesystem::path& folder, const nlohmann::ordered_json& before);

}  // namespace neuronmm::io
