#pragma once
// A lock that processes hold on a folder while they change a file in it.

#include <filesystem>

#include "base/result.h"

namespace neuronmm::io {

class FolderLock {
 public:
  // Waits until no other process holds it. Errors: the folder cannot be opened; interrupted.
  static Result<FolderLock> wait(const std::filesystem::path& folder);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;  // -1: moved from
};

}  // namespace neuronmm::io
