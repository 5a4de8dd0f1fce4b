#include "io/gguf.h"

#include <algorithm>
#include <array>
#include <fstream>

namespace neuronmm::io {
namespace {

// Returns true for "GGUF" and a version below 2^24 in little-endian order. A text has no zero byte
// there.
bool has_magic(const std::filesystem::path& path) {
  std::array<char, 8> start{};
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), start.size());
  return file.gcount() == start.size() && std::string_view(start.data(), 4) == "GGUF" &&
         start[7] == '\0';
}

}  // namespace

bool is_gguf(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) &&
         (path.extension() == ".gguf" || has_magic(path));
}

Status refuse_gguf(const std::filesystem::path& path, std::string_view expected) {
  if (!is_gguf(path)) return {};
  return fail("{}: is a GGUF file; expected {}; {}", path.string(), expected, import_hint(path));
}

std::vector<std::string> gguf_files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".gguf") names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::string import_hint(const std::filesystem::path& gguf) {
  return fmt::format("to make a model folder of it: neuronmm import {} -o DIR", gguf.string());
}

}  // namespace neuronmm::io
