#pragma once
// Makes an output folder all at once. Everything is written in a staging folder next to the output
// (io/staging_folder.h), which is renamed at the end. The output is therefore either complete or as
// it was before. If a run fails, only work that a later run can continue stays. If a run is killed,
// the next run with the same output continues or removes its work. All commands that write model
// folders use this.

#include <filesystem>
#include <functional>

#include "base/result.h"
#include "io/staging_folder.h"

namespace neuronmm::io {

// Fails unless `folder` is a folder.
Status require_folder(const std::filesystem::path& folder);

// Fails if the disk of `folder` has less free space than the weights need, in bytes. The check
// comes before the weights are computed. If the free space is unknown, it succeeds.
Status check_space(const std::filesystem::path& folder, int64_t needed);

// Fails if `out` is the folder `input`, lies inside it or contains it, by name or by identity.
// Writing there could delete what is being read.
Status check_output_apart_from_input(const std::filesystem::path& out,
                                     const std::filesystem::path& input);

// Removes what a run left next to the complete folder `out` if it was killed at the end of its
// commit. Work that is not finished stays, and so does what another process holds or cannot be
// deleted. Readers of a finished folder call this; FolderWriter::create() does the same.
void remove_remains(const std::filesystem::path& out);

// Returns the folder in which an unfinished run for the output `out` keeps its work. It need not
// exist.
Result<std::filesystem::path> resume_folder_of(const std::filesystem::path& out);

// A function that a maker of a folder calls when everything is written, before the output appears.
// If it returns an error, the maker fails. A report that it writes is therefore there whenever the
// output is, also after a kill.
template <typename... Summary>
using BeforeOutput = std::function<Status(const Summary&...)>;

// An output folder that is being made.
class FolderWriter {
 public:
  enum class IfExists { kRefuse, kReplace };
  // Fails as create() would if `out` could not be made or replaced, but changes nothing. Commands
  // that create the output late ask first, so that the error costs no time.
  static Status check(const std::filesystem::path& out, IfExists if_exists,
                      const std::filesystem::path& input = {});
  // Whether the caller looks into resume_folder() for work of an interrupted run. If it never does,
  // other commands' work that is there would be lost. create() then fails with kRefuse, and deletes
  // the work with kReplace.
  enum class Resume { kByCaller, kNever };

  // Fails if one of these holds for `out`:
  //   it is the folder `input`, lies inside it or contains it
  //   it exists and `if_exists` is kRefuse
  //   it exists and is not a model folder (a config.json of a known architecture and safetensors)
  //   it exists and holds other files than a model's (io/foreign_files.h)
  //   another process is making it
  //   unfinished work for it would be lost
  //   its parent cannot be written
  static Result<FolderWriter> create(const std::filesystem::path& out, IfExists if_exists,
                                     const std::filesystem::path& input = {},
                                     Resume resume = Resume::kByCaller);
  FolderWriter(FolderWriter&& other) noexcept;
  FolderWriter& operator=(FolderWriter&&) = delete;
  // Without commit(), deletes staging(), and also the staging folder if it holds no work to go on
  // with. A notice (base/notices.h) says what could not be deleted.
  ~FolderWriter();

  const std::filesystem::path& out() const { return out_; }
  // The folder that becomes the output. It is empty at the start.
  std::filesystem::path staging() const { return staging_.model(); }
  // A folder for files from which an interrupted run continues. commit() removes it.
  std::filesystem::path resume_folder() const { return staging_.resume_folder(); }
  // Replaces `out` by staging(). A file of somebody else that has appeared in `out` since create()
  // is an error, and the old output then stays.
  Status commit();

 private:
  FolderWriter(std::filesystem::path out, StagingFolder staging, IfExists if_exists);
  Status prepare(Resume resume) const;
  Status replace_output();
  Result<bool> exchange_with_output();
  Status abandon() const;

  std::filesystem::path out_;
  StagingFolder staging_;
  IfExists if_exists_;
  bool committed_ = false;  // whether `out_` is the new output
};

}  // namespace neuronmm::io
