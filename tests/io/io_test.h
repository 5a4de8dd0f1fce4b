#pragma once
// Helpers for the tests of this folder: a temporary folder, files by their bytes, and a search for
// words in an error message.

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "base/result.h"

namespace neuronmm::io {

// A folder that is removed at the end of its object's life.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "neuronmm-XXXXXX").string();
    NMM_CHECK(mkdtemp(pattern.data()) != nullptr);
    path_ = std::filesystem::canonical(pattern);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline void put(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string get(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the bytes of a safetensors file: the length, the header, and `data_bytes` zeros.
inline std::string safetensors_bytes(std::string_view header, size_t data_bytes = 0) {
  const uint64_t length = header.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes.append(header).append(data_bytes, '\0');
}

// Succeeds if `result` (a Result or a Status) failed with a message that contains all `words`.
template <typename ResultOrStatus>
testing::AssertionResult fails_with(const ResultOrStatus& result,
                                    std::initializer_list<std::string_view> words) {
  if (result.ok()) return testing::AssertionFailure() << "it succeeded";
  const std::string& message = result.error().message;
  for (std::string_view word : words) {
    if (message.find(word) == std::string::npos)
      return testing::AssertionFailure() << "no \"" << word << "\" in: " << message;
  }
  return testing::AssertionSuccess();
}

}  // namespace neuronmm::io
