#pragma once
// Makes an output folder all at once: everything is written in a staging folder beside it and
// renamed at the end, so that the output is either absent (or as it was) or complete.

#include <filesystem>
#include <string>

#include "base/result.h"

namespace neuronmm::io {

// An error unless `folder` is a folder.
Status require_folder(const std::filesystem::path& folder);

class FolderWriter {
 public:
  enum class IfExists { kRefuse, kReplace };

  // Refuses an `out` that is (or lies inside, or contains) the folder `input`, that exists without
  // kReplace, that exists and is not a model folder (no config.json in it), or whose parent cannot
  // be written. Creates `out` + ".partial", or keeps what an interrupted run left there.
  static Result<FolderWriter> create(const std::filesystem::path& out, IfExists if_exists,
                                     const std::filesystem::path& input = {});

  const std::filesystem::path& out() const { return out_; }
  const std::filesystem::path& staging() const { return staging_; }
  // Copies every file of `from` that is not weights (*.safetensors, *.bin, their *.index.json,
  // *.pt, *.pth, *.gguf, *.h5, *.msgpack, *.onnx), nor a page or text about the model (*.md, *.txt,
  // but for licences and a tokenizer's merges.txt and vocab.txt), and that the staging folder does
  // not already have; sub-folders and hidden files are left out.
  Status copy_other_files(const std::filesystem::path& from);
  // Replaces `out` by the staging folder.
  Status commit();
  // Deletes the staging folder.
  void discard();

 private:
  FolderWriter(std::filesystem::path out, std::filesystem::path staging, IfExists if_exists);

  std::filesystem::path out_, staging_;
  IfExists if_exists_;
};

}  // namespace neuronmm::io
