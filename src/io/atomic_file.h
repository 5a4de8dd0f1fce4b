#pragma once
// A file that appears under its name all at once: written as `path` + ".tmp", synced and renamed.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/result.h"

namespace neuronmm::io {

inline constexpr std::string_view kTemporarySuffix = ".tmp";

class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::filesystem::path& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();  // removes the temporary unless finish() succeeded

  // After an error (full disk, ...) the temporary is gone and every further call fails.
  Status append(std::span<const std::byte> bytes);
  Status finish();

 private:
  AtomicFile(std::filesystem::path path, int descriptor);
  std::filesystem::path temporary() const;
  Error give_up(int code);
  void abandon();

  std::filesystem::path path_;
  int descriptor_;  // -1: finished, abandoned or moved from
};

}  // namespace neuronmm::io
