#pragma once
// A GGUF file (version 3, little-endian; ggml-org/ggml, docs/gguf.md): its metadata and where its
// tensors lie.
//
//   "GGUF"  version u32  tensors u64  pairs u64  pairs...  tensor infos...  padding  tensor data
//
// Every count, length and offset is checked against the file before it is used.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "io/gguf_metadata.h"
#include "io/gguf_types.h"
#include "io/mapped_file.h"

namespace neuronmm::io {

struct GgufTensor {
  std::string_view name;
  const GgufTypeInfo* type;
  Shape
      shape;  // outermost first, as in Hugging Face's folders: the file has it the other way round
  std::span<const std::byte> data;  // whole blocks of each row, row after row

  int64_t columns() const { return shape.back(); }
  int64_t rows() const;
  int64_t row_bytes() const { return columns() / type->block_elements * type->block_bytes; }
};

class GgufFile {
 public:
  // Errors beside those of the metadata: no GGUF, another version or byte order, a tensor of an
  // unknown type, without extent, with rows of broken blocks, off the alignment, beyond the file,
  // over another one, or there twice.
  static Result<GgufFile> open(const std::filesystem::path& path);
  // The same of memory that outlives the result; `source` begins every message.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, const std::string& source);

  const GgufMetadata& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  // Gives back the memory of what was read; reading it again loads it again.
  void release_pages() const;

 private:
  std::shared_ptr<const MappedFile> file_;
  GgufMetadata metadata_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace neuronmm::io
