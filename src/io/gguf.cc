#include "io/gguf.h"

#include <array>
#include <fstream>

namespace neuronmm::io {
namespace {

// "GGUF", then a version below 2^24 in little endian: no text has a zero byte there.
bool has_magic(const std::filesystem::path& path) {
  std::array<char, 8> start{};
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), start.size());
  return file.gcount() == start.size() && std::string_view(start.data(), 4) == "GGUF" &&
         start[7] == '\0';
}

}  // namespace

Status refuse_gguf(const std::filesystem::path& path, std::string_view expected) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return {};
  if (path.extension() != ".gguf" && !has_magic(path)) return {};
  return fail("{}: is a GGUF file; expected {} (neuronmm import {} -o DIR makes a model folder)",
              path.string(), expected, path.string());
}

}  // namespace neuronmm::io
