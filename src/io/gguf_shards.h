#pragma once
// A model that lies in one GGUF file or, split, in NAME-00001-of-0000N.gguf to NAME-0000N-of-0000N.

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/gguf_file.h"

namespace neuronmm::io {

class GgufShards {
 public:
  // Any of the files finds the others. Errors beside those of each: a file of the set that is
  // absent or says that it is another one's part, a tensor in two of them, fewer or more tensors
  // than the first file promises.
  static Result<GgufShards> open(const std::filesystem::path& path);

  // Those of the first file: the others have none but their place in the set.
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
