#pragma once
// The folder beside an output in which the output is made, OUT.partial:
//
//   neuronmm.json   says that the folder is this program's, and what a commit was about to put in
//                   place
//   model/          what becomes the output
//   work/           what an interrupted run goes on from
//
// It is locked as long as its object lives, so that two runs never mix. Nothing in it but these
// names is ever touched.

#include <filesystem>
#include <optional>

#include "base/result.h"

namespace neuronmm::io {

// What tells a folder from every other, whatever it is called.
struct FolderIdentity {
  uint64_t device = 0, inode = 0;
  bool operator==(const FolderIdentity&) const = default;
};
std::optional<FolderIdentity> folder_identity_of(const std::filesystem::path& folder);

class StagingFolder {
 public:
  // The folder at `path`, locked; nullopt: there is none. Errors: another process holds it (which
  // is named), or it is not this program's.
  static Result<std::optional<StagingFolder>> find(const std::filesystem::path& path);
  // The same, made if it is not there.
  static Result<StagingFolder> create(const std::filesystem::path& path);
  StagingFolder(StagingFolder&& other) noexcept;
  StagingFolder& operator=(StagingFolder&& other) noexcept;
  ~StagingFolder();  // unlocks

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path model() const { return path_ / "model"; }
  std::filesystem::path work() const { return path_ / "work"; }
  // Where an output that is being replaced waits on file systems that cannot exchange two folders.
  std::filesystem::path replaced() const { return path_ / "replaced"; }

  // Says that this process works here.
  Status mark() const;
  // Says that model/ is about to become the output; afterwards is_committed(out) tells whether it
  // did, also to another process after this one was killed.
  Status mark_commit() const;
  bool is_committed(const std::filesystem::path& out) const;
  // Removes the folder and all that this program puts into it. What else lies there stays.
  Status remove() const;

 private:
  StagingFolder(std::filesystem::path path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::filesystem::path marker() const { return path_ / "neuronmm.json"; }
  Status write_marker(std::optional<FolderIdentity> commits) const;
  Result<bool> is_ours() const;

  std::filesystem::path path_;
  int lock_ = -1;  // the open folder; -1: moved from
};

}  // namespace neuronmm::io
