#pragma once
// A whole file as read-only memory, loaded page by page when it is touched.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace neuronmm::io {

// A mapped file that becomes shorter, or whose disk fails, ends the process with SIGBUS at the next
// touch. From now on with a message that names the file and exit code 1; whatever was being written
// is as after a kill. Called by programs, not by libraries.
void guard_mapped_reads();

class MappedFile {
 public:
  // Errors: absent, unreadable, not a regular file.
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
  // As if of a file of zeros. Its pages take no memory, however many are read.
  static Result<std::shared_ptr<const MappedFile>> zeros(int64_t size);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  // Gives back the memory of the pages that were touched; touching one again loads it again.
  void release_pages() const;

 private:
  MappedFile(std::span<const std::byte> bytes, const std::string& name);
  std::span<const std::byte> bytes_;
};

}  // namespace neuronmm::io
