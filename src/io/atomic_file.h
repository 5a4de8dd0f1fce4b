#pragma once
// A file that appears under its name all at once: written under a temporary name beside it, synced,
// renamed, and its folder synced. A process that is killed leaves the temporary; the next one that
// writes the same file removes it.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/result.h"

namespace neuronmm::io {

// Whether a name is one that AtomicFile gives its temporaries: ".NAME.0123456789abcdef.neuronmm".
bool is_temporary_name(std::string_view name);

// Makes renames in the folder durable. File systems that cannot sync a folder are no error.
Status sync_folder(const std::filesystem::path& folder);

class AtomicFile {
 public:
  // A regular file is replaced (through links to it, and with its permissions kept). A pipe, a
  // terminal or another character device is written to as it is, and so is a file that is this
  // process's standard output or error. Refused: folders, links to nothing, disks, sockets, files
  // that may not be written.
  static Result<AtomicFile> create(const std::filesystem::path& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();  // removes the temporary unless finish() succeeded

  // After an error (full disk, ...) the temporary is gone and every further call fails.
  Status append(std::span<const std::byte> bytes);
  Status finish();

 private:
  AtomicFile(std::filesystem::path path, std::filesystem::path temporary, int descriptor);
  Error give_up(int code);
  void abandon();

  std::filesystem::path path_;       // behind all links
  std::filesystem::path temporary_;  // empty: bytes go to `path_` directly
  int descriptor_;                   // -1: finished, abandoned or moved from
};

}  // namespace neuronmm::io
