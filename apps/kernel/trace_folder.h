#pragma once
// A temporary folder for the traces of a kernel that the user did not ask to keep. Python writes
// into it, so it has a name below $TMPDIR. It is locked as long as its process lives. The next
// process deletes the folders that nobody locks, which killed processes have left.

#include <filesystem>

#include "base/result.h"

namespace neuronmm::apps {

// The folder, which is deleted at the end of the object's life.
class TraceFolder {
 public:
  // Deletes what killed processes of this user have left, and makes a folder.
  static Result<TraceFolder> create();
  TraceFolder(TraceFolder&& other) noexcept;
  TraceFolder& operator=(TraceFolder&&) = delete;
  // Removes the folder. A notice (base/notices.h) says if that fails.
  ~TraceFolder();

  const std::filesystem::path& path() const { return path_; }
  // Removes the folder, so that a failure is an error.
  Status remove();

 private:
  TraceFolder(std::filesystem::path path, int lock);
  std::filesystem::path path_;  // empty if the folder is removed or moved from
  int lock_;                    // the open folder
};

}  // namespace neuronmm::apps
