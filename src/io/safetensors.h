#pragma once
// Reads the safetensors format. A file is a header length n of 8 bytes (little-endian), n bytes of
// JSON {name: {dtype, shape, data_offsets}}, and the tensors' bytes. The format is described at
// https://github.com/huggingface/safetensors ("Format"), which limits n to 100 MB.

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace neuronmm::io {

class MappedFile;

// The name of a tensor at the end of a file that holds a checksum of all bytes before it, the XXH3
// of 64 bits. The tensor is not among tensors().
inline constexpr const char* kChecksumName = "neuronmm.checksum";

// A memory-mapped file. Opening checks the header length, the JSON, the dtypes and the shapes
// (without overflow). The offsets must match dtype and shape, lie inside the file, and leave
// neither overlaps nor gaps.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::filesystem::path& path);
  // Opens a file that SafetensorsWriter::create_checked wrote, and checks its checksum.
  static Result<SafetensorsFile> open_checked(const std::filesystem::path& path);
  // Makes the same checks on bytes in memory, which must outlive the result. The fuzz target calls
  // it.
  static Result<SafetensorsFile> parse(std::span<const std::byte> bytes, const std::string& source);

  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // Does nothing for bytes in memory (see MappedFile).
  void release_pages() const;

 private:
  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
  bool has_checksum_ = false;
};

}  // namespace neuronmm::io
