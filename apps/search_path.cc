#include "search_path.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/ranges.h>
#include <unistd.h>

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSystemFolders = "/usr/bin:/bin";

}  // namespace

SearchPath split_search_path(std::string_view list) {
  SearchPath result;
  while (!list.empty()) {
    const size_t end = list.find(':');
    const std::string folder(list.substr(0, end));
    list.remove_prefix(end == std::string_view::npos ? list.size() : end + 1);
    if (folder.starts_with('/')) {
      result.absolute.push_back(folder);
    } else if (!folder.empty()) {
      result.relative.push_back(folder);
    }
  }
  return result;
}

std::string safe_path_variable() {
  const char* const path = std::getenv("PATH");
  const auto folders = split_search_path(path == nullptr ? kSystemFolders : path).absolute;
  return folders.empty() ? kSystemFolders : fmt::format("{}", fmt::join(folders, ":"));
}

std::string find_program(std::string_view name, std::string_view path_variable) {
  for (const std::string& folder : split_search_path(path_variable).absolute) {
    const fs::path program = fs::path(folder) / name;
    std::error_code ignored;
    if (fs::is_regular_file(program, ignored) && access(program.c_str(), X_OK) == 0)
      return program.string();
  }
  return "";
}

}  // namespace neuronmm::apps
