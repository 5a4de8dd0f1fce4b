#pragma once
// Tells one state of an input file from another without reading it, by path, size, inode and time
// of modification. An interrupted run uses it to know whether it may continue. Commands also use it
// to notice that an input was changed while they read it.

#include <filesystem>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace neuronmm::io {

// Returns the identity of one file as JSON.
nlohmann::ordered_json file_identity(const std::filesystem::path& path);
// Returns the identities of every *.safetensors and *.json in the folder.
Result<nlohmann::ordered_json> folder_identity(const std::filesystem::path& folder);
// Fails if a file's identity differs from that in `before`, and names the first such file.
Status check_unchanged(const std::filesystem::path& folder, const nlohmann::ordered_json& before);

}  // namespace neuronmm::io
