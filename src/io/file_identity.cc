#include "io/file_identity.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

namespace neuronmm::io {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

ordered_json file_identity(const fs::path& path) {
  std::error_code ignored;
  return {{"path", fs::weakly_canonical(path, ignored).string()},
          {"size", fs::file_size(path, ignored)},
          {"modified", fs::last_write_time(path, ignored).time_since_epoch().count()}};
}

// Weights and configs decide what a model computes; other files in the folder may change.
ordered_json folder_identity(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".safetensors" || extension == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  ordered_json identity = ordered_json::array();
  for (const fs::path& file : files) identity.push_back(file_identity(file));
  return identity;
}

}  // namespace neuronmm::io
