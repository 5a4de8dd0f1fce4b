#pragma once
// Maps a whole file into memory for reading. The system loads each page when it is touched.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace neuronmm::io {

// Handles SIGBUS for the rest of the process. The signal arrives at a touch of a mapped file that
// became shorter or whose disk fails. The process then ends with exit code 1 and a message that
// names the file, and its outputs are as after a kill. Programs call this function, libraries do
// not.
void guard_mapped_reads();

// The mapping of one file.
class MappedFile {
 public:
  // Fails if the file is missing, unreadable or not a regular file.
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
  // Makes a mapping that reads as zeros. Its pages take no memory, however many are read.
  static Result<std::shared_ptr<const MappedFile>> zeros(int64_t size);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  // Releases the memory of the pages that were touched. Touching one again loads it again.
  void release_pages() const;

 private:
  MappedFile(std::span<const std::byte> bytes, const std::string& name);
  std::span<const std::byte> bytes_;
};

}  // namespace neuronmm::io
