#pragma once
// Writes a file so that it appears under its name all at once. The bytes go to a file without a
// name (O_TMPFILE) in the same folder, which is synced and then gets its name, and the folder is
// synced. A killed process leaves nothing. On file systems without such files, and for a moment
// while a file is replaced, the bytes have a temporary name. The next process that writes the same
// file removes a temporary file that a killed process has left.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/result.h"
#include "io/inode.h"

namespace neuronmm::io {

// Returns true for the names of AtomicFile's temporary files: ".NAME.0123456789abcdef.neuronmm".
bool is_temporary_name(std::string_view name);

// Makes renames in the folder durable. A file system that cannot sync a folder is no error.
Status sync_folder(const std::filesystem::path& folder);

// Makes a folder, and the folders above it that are missing. A folder that exists is no error.
Status make_folder(const std::filesystem::path& folder);

// A file that is being written.
class AtomicFile {
 public:
  // Opens a file for writing. A regular file is replaced, through links to it and with its
  // permissions. A pipe, a terminal or another character device is written to directly. So is a
  // file that is this process's standard output or error. Fails for folders, links to nothing,
  // disks, sockets and files that may not be written.
  static Result<AtomicFile> create(const std::filesystem::path& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  // Removes the temporary file unless finish() succeeded. A notice (base/notices.h) says if that
  // fails.
  ~AtomicFile();

  // After an error (a full disk, for example) the temporary file is gone and every further call
  // fails.
  Status append(std::span<const std::byte> bytes);
  Status finish();
  // Returns what identifies the file, whether it has its name yet or not. Fails once it is closed.
  Result<Inode> inode() const;
  // Returns whether an append failed because the file is a pipe that nobody reads any more.
  bool lost_its_reader() const { return lost_its_reader_; }

 private:
  AtomicFile(std::filesystem::path path, std::filesystem::path temporary, int descriptor,
             bool in_place);
  int give_name();
  Error abandon_with_error(int code);
  void abandon();

  // The path of the file itself, after all links.
  std::filesystem::path path_;
  // The temporary name of the bytes. Empty if they have none.
  std::filesystem::path temporary_;
  bool in_place_;  // whether bytes go to `path_` directly
  // -1 if the file is finished, abandoned or moved from.
  int descriptor_;
  bool lost_its_reader_ = false;
};

}  // namespace neuronmm::io
