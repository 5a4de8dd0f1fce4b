#pragma once
// Reading the safetensors format: 8 bytes little-endian header length n, n bytes of JSON {name:
// {dtype, shape, data_offsets}}, then the tensors' bytes. Format:
// https://github.com/huggingface/safetensors ("Format"), which caps n at 100 MB.

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

// The tensor, last in the file, that holds a checksum of all bytes before it: XXH3 of 64 bits. It
// is not among tensors().
inline constexpr const char* kChecksumName = "neuronmm.checksum";

// A memory-mapped file. Everything is checked on opening: header length, JSON, dtypes, shapes
// without overflow, offsets that match dtype and shape, lie inside the file, do not overlap and
// leave no gaps.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::filesystem::path& path);
  // The same, and the bytes must have the checksum that SafetensorsWriter::create_checked wrote.
  static Result<SafetensorsFile> open_checked(const std::filesystem::path& path);
  // The same checks on bytes in memory, which must outlive the result (the fuzz target's entry).
  static Result<SafetensorsFile> parse(std::span<const std::byte> bytes, const std::string& source);

  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  void release_pages() const;  // see MappedFile; nothing for bytes in memory

 private:
  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
  bool has_checksum_ = false;
};

}  // namespace neuronmm::io
