#pragma once
// A model that lies in one GGUF file or is split into several. The files of a split model are
// called NAME-00001-of-0000N.gguf to NAME-0000N-of-0000N.gguf. The importer (src/gguf) opens models
// with it.

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf_file.h"

namespace neuronmm::io {

// The tensors of all files of a model.
class GgufShards {
 public:
  // Opens a model from the path of any of its files. Fails like GgufFile::open. Fails, too, if a
  // file of the set is missing or says that it is another part. Two tensors of the same name are an
  // error, and so is a number of tensors that differs from the one in the first file.
  static Result<GgufShards> open(const std::filesystem::path& path);

  // Parses a model in memory that is not split. The bytes must outlive the result. `source` begins
  // every message.
  static Result<GgufShards> parse(std::span<const std::byte> bytes, const std::string& source);

  // The metadata of the first file. The other files have only their place in the set.
  const GgufMetadata& metadata() const { return files_.front().metadata(); }
  const std::map<std::string_view, GgufTensor>& tensors() const { return tensors_; }
  const std::vector<std::filesystem::path>& paths() const { return paths_; }
  void release_pages() const;

 private:
  Status add_tensors(const GgufFile& file, const std::filesystem::path& path);

  std::vector<std::filesystem::path> paths_;
  std::vector<GgufFile> files_;
  std::map<std::string_view, GgufTensor> tensors_;
};

}  // namespace neuronmm::io
