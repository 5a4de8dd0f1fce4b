#pragma once
// Reads a GGUF file (version 2 or 3, little-endian; ggml-org/ggml, docs/gguf.md): its metadata and
// the places of its tensors. The importer (src/gguf) is the user. The file has these parts:
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
#include "gguf/gguf_metadata.h"
#include "gguf/gguf_types.h"
#include "io/mapped_file.h"

namespace neuronmm::io {

// A tensor of the file.
struct GgufTensor {
  std::string_view name;
  const GgufTypeInfo* type;
  // The sizes, outermost first as in Hugging Face's folders. The file has them in reverse order.
  Shape shape;
  // The blocks of each row, row after row.
  std::span<const std::byte> data;

  int64_t columns() const { return shape.back(); }
  int64_t rows() const;
  int64_t row_bytes() const { return columns() / type->block_elements * type->block_bytes; }
};

// A file that is mapped into memory.
class GgufFile {
 public:
  // Opens a file. Fails if it is no GGUF file, or has another version or byte order, or wrong
  // metadata. Fails, too, if a tensor has an unknown type, no elements, rows of incomplete blocks
  // or a wrong alignment, lies beyond the file, overlaps another tensor or occurs twice.
  static Result<GgufFile> open(const std::filesystem::path& path);
  // Parses bytes in memory that outlive the result. `source` begins every message.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, const std::string& source);

  const GgufMetadata& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  // Releases the memory of what was read. Reading it again loads it again.
  void release_pages() const;

 private:
  std::shared_ptr<const MappedFile> file_;
  GgufMetadata metadata_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace neuronmm::io
