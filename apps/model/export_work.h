#pragma once
// The folder OUT.partial, in which an export keeps rounded matrices until its file OUT is written.

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "io/inode.h"
#include "io/staging_folder.h"

namespace neuronmm::apps {

// The locked folder, which no other kind of work uses. If nothing in it is finished when the object
// goes, the folder is removed.
class ExportWork {
 public:
  // Removes the folder if its file is in place. This is so if a run was killed, or could not delete
  // the folder, after it had written the file.
  static Status remove_used(const std::filesystem::path& out);
  static Result<ExportWork> create(const std::filesystem::path& out);
  ExportWork(ExportWork&& other) noexcept;
  ~ExportWork();

  // The folder for finished matrices.
  std::filesystem::path path() const { return folder_->resume_folder(); }
  // What messages call the folder.
  std::string name() const { return folder_->path().string(); }
  // Says that `file` is about to get the name `out`, which uses the work up.
  Status mark_used(const io::Inode& file) const { return folder_->mark_commit(file); }
  // Removes the folder, whose file is in place.
  Status remove();

 private:
  ExportWork(std::filesystem::path out, io::StagingFolder folder);

  std::filesystem::path out_;
  std::optional<io::StagingFolder> folder_;  // empty if moved from or removed
};

}  // namespace neuronmm::apps
