#pragma once
// A lock that a process holds on a folder while it changes a file in it. It protects files
// that several processes may change at once, such as the tuner's cache.

#include <filesystem>

#include "base/result.h"

namespace neuronmm::io {

// The lock, which is released at the end of the object's life.
class FolderLock {
 public:
  // Waits until no other process holds the lock. Fails if the folder cannot be opened or the
  // process is interrupted. On file systems without locks it returns without one.
  static Result<FolderLock> wait(const std::filesystem::path& folder);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;  // -1 if moved from.
};

}  // namespace neuronmm::io
