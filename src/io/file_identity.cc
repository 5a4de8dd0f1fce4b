#include "io/file_identity.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "io/adapter.h"
#include "io/adapter_config.h"
#include "io/folder_writer.h"
#include "io/mounted_model.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

}  // namespace

Result<fs::path> resolved_path(const fs::path& path) {
  std::error_code error;
  fs::path resolved = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) return fail("{}: cannot be resolved: {}", path.string(), error.message());
  return resolved;
}

// The content is not read, because models have gigabytes and this runs at every start. The inode
// and the nanoseconds show that a file was replaced by one of the same size.
Result<ordered_json> file_identity(const fs::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    return fail("{}: cannot be examined: {}", path.string(), std::strerror(errno));
  }
  NMM_ASSIGN(const fs::path resolved, resolved_path(path));
  return ordered_json{{"path", resolved.string()},
                      {"size", status.st_size},
                      {"inode", status.st_ino},
                      {"modified", nanoseconds(status.st_mtim)}};
}

// Weights and configs decide what a model computes. Other files in the folder may change.
Result<ordered_json> folder_identity(const fs::path& folder) {
  NMM_TRY(require_folder(folder));
  std::vector<fs::path> files;
  NMM_ASSIGN(const auto mounted, mounted_model(folder));
  if (mounted != nullptr) files = mounted->files();
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string extension = entry->path().extension().string();
    if (extension == ".safetensors" || extension == ".json") files.push_back(entry->path());
  }
  if (error && mounted == nullptr)
    return fail("{}: cannot be read: {}", folder.string(), error.message());
  if (const auto adapter = adapter_of(folder)) {
    for (const char* name : {kAdapterConfigName, kAdapterFileName}) {
      if (fs::exists(*adapter / name, error)) files.push_back(*adapter / name);
    }
  }
  std::sort(files.begin(), files.end());
  ordered_json identity = ordered_json::array();
  for (const fs::path& file : files) {
    NMM_ASSIGN(ordered_json one, file_identity(file));
    identity.push_back(std::move(one));
  }
  return identity;
}

Status check_unchanged(const fs::path& folder, const ordered_json& before) {
  NMM_ASSIGN(const ordered_json now, folder_identity(folder));
  if (now == before) return {};
  for (size_t i = 0; i < std::max(now.size(), before.size()); ++i) {
    if (i < now.size() && i < before.size() && now[i] == before[i]) continue;
    const ordered_json& changed = i < now.size() ? now[i] : before[i];
    return fail("{}: was changed while it was read; run the same command again",
                changed.at("path").get<std::string>());
  }
  return {};
}

}  // namespace neuronmm::io
