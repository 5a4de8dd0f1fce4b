#pragma once
// The folder OUT.partial, in which FolderWriter makes the output OUT:
//
//   neuronmm.json   says that the folder belongs to this program, and which folder a commit puts in
//                   place
//   model/          becomes the output
//   work/           holds files from which an interrupted run continues
//
// The folder is locked as long as its object lives, so that two runs never mix. Nothing else in the
// folder is ever touched.

#include <filesystem>
#include <optional>

#include "base/result.h"
#include "io/inode.h"

namespace neuronmm::io {

// A locked staging folder.
class StagingFolder {
 public:
  // Locks the folder at `path`. Returns nullopt if there is none. Fails if another process holds
  // it, which the error names, or if it does not belong to this program.
  static Result<std::optional<StagingFolder>> find(const std::filesystem::path& path);
  // Locks the folder at `path`, and makes it if there is none.
  static Result<StagingFolder> create(const std::filesystem::path& path);
  StagingFolder(StagingFolder&& other) noexcept;
  StagingFolder& operator=(StagingFolder&& other) noexcept;
  // Unlocks the folder.
  ~StagingFolder();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path model() const { return path_ / "model"; }
  std::filesystem::path resume_folder() const { return path_ / "work"; }
  // The path of an output that is being replaced, on file systems that cannot exchange two
  // folders.
  std::filesystem::path replaced() const { return path_ / "replaced"; }

  // Writes a marker that says that this process works in the folder.
  Status mark_in_use() const;
  // Writes a marker that says that this file or folder is about to become the output. Afterwards
  // is_committed(out) tells whether it did, even to another process after this one was killed.
  Status mark_commit(const Inode& output) const;
  bool is_committed(const std::filesystem::path& out) const;
  // Removes model().
  Status remove_model() const;
  // Removes the folder and all that this program puts into it. Other files in it stay.
  Status remove() const;

 private:
  StagingFolder(std::filesystem::path path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::filesystem::path marker() const { return path_ / "neuronmm.json"; }
  Status write_marker(std::optional<Inode> commits) const;
  Result<bool> belongs_to_this_program() const;

  std::filesystem::path path_;
  // The open folder, or -1 if moved from.
  int lock_ = -1;
};

}  // namespace neuronmm::io
