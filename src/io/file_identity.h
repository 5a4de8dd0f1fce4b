#pragma once
// What tells one state of an input from another without reading it: path, size and time of change.
// For work that goes on where an earlier run stopped.

#include <filesystem>

#include <nlohmann/json_fwd.hpp>

namespace neuronmm::io {

nlohmann::ordered_json file_identity(const std::filesystem::path& path);
// Of every *.safetensors and *.json in the folder.
nlohmann::ordered_json folder_identity(const std::filesystem::path& folder);

}  // namespace neuronmm::io
