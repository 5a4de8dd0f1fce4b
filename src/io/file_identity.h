#pragma once
// Tells one state of an input file from another without reading it, by path, size, inode and time
// of modification. An interrupted run uses it to know whether it may continue. Commands also use it
// to notice that an input was changed while they read it.

#include <filesystem>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace neuronmm::io {

// Returns `path` as an absolute path without links and dots. It need not exist. Fails if the system
// cannot tell, for example because a folder may not be read.
Result<std::filesystem::path> resolved_path(const std::filesystem::path& path);

// Returns the identity of one file as JSON. Fails if the system does not tell it. A run that went
// on with half an identity would leave work that no later run continues.
Result<nlohmann::ordered_json> file_identity(const std::filesystem::path& path);
// Returns the identities of every *.safetensors and *.json in the folder, and those of the adapter
// that was chosen for it (adapter.h).
Result<nlohmann::ordered_json> folder_identity(const std::filesystem::path& folder);
// Fails if a file's identity differs from that in `before`, and names the first such file.
Status check_unchanged(const std::filesystem::path& folder, const nlohmann::ordered_json& before);

}  // namespace neuronmm::io
