#pragma once
// Makes an output folder all at once: everything is written in a staging folder beside it
// (io/staging_folder.h) and renamed at the end, so that the output is either absent (or as it was)
// or complete. A run that was killed at any moment is gone on from, or cleaned up, by the next one
// with the same output.

#include <filesystem>

#include "base/result.h"
#include "io/staging_folder.h"

namespace neuronmm::io {

// An error unless `folder` is a folder.
Status require_folder(const std::filesystem::path& folder);

// An error if the disk of `folder` has no room for that many bytes of weights: better known before
// they are computed than when it is full. Where the room is unknown there is none.
Status check_space(const std::filesystem::path& folder, int64_t needed);

// An error if `out` is the folder `input`, lies inside it or contains it, by name or by identity:
// writing there could delete what is being read.
Status check_apart(const std::filesystem::path& out, const std::filesystem::path& input);

class FolderWriter {
 public:
  enum class IfExists { kRefuse, kReplace };

  // Refuses an `out` that is (or lies inside, or contains) the folder `input`, that exists without
  // kReplace, that exists and is not a model folder (a config.json of a known architecture and
  // safetensors), that another process is making, or whose parent cannot be written.
  static Result<FolderWriter> create(const std::filesystem::path& out, IfExists if_exists,
                                     const std::filesystem::path& input = {});

  const std::filesystem::path& out() const { return out_; }
  // The folder that becomes the output, empty at the start.
  std::filesystem::path staging() const { return staging_.model(); }
  // A folder for what an interrupted run goes on from; gone with the commit.
  std::filesystem::path work() const { return staging_.work(); }
  // Replaces `out` by staging().
  Status commit();
  // Deletes the staging folder.
  Status discard() const { return staging_.remove(); }

 private:
  FolderWriter(std::filesystem::path out, StagingFolder staging, IfExists if_exists);
  Status put_in_place();

  std::filesystem::path out_;
  StagingFolder staging_;
  IfExists if_exists_;
};

}  // namespace neuronmm::io
