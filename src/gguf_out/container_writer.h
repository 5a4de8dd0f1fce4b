#pragma once
// Writes the container of a GGUF file (version 3, little-endian; ggml-org/ggml, docs/gguf.md). The
// parts are described in gguf/gguf_file.h, which reads them.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "gguf_out/block_encoder.h"
#include "io/atomic_file.h"

namespace neuronmm::gguf_out {

// Collects the key-value pairs of a file. A key that is added twice keeps its first value, because
// llama.cpp refuses files with duplicate keys.
class Pairs {
 public:
  // Add a pair. Their names say the type that the file has: u32, i32, f32, bool and string.
  void u32(std::string_view key, int64_t value);
  void i32(std::string_view key, int64_t value);
  void f32(std::string_view key, double value);
  void boolean(std::string_view key, bool value);
  void text(std::string_view key, std::string_view value);
  void i32s(std::string_view key, std::span<const int64_t> values);
  void f32s(std::string_view key, std::span<const float> values);
  void booleans(std::string_view key, const std::vector<bool>& values);
  void texts(std::string_view key, std::span<const std::string> values);

  bool has(std::string_view key) const { return keys_.contains(key); }
  int64_t count() const { return std::ssize(keys_); }
  // The pairs as the file has them.
  const std::string& bytes() const { return bytes_; }

 private:
  bool begin(std::string_view key, uint32_t type);

  std::set<std::string, std::less<>> keys_;
  std::string bytes_;
};

// A tensor of the file. The shape is outermost first, as in Hugging Face's folders.
struct TensorInfo {
  std::string name;
  BlockType type = BlockType::kF32;
  Shape shape;

  // The bytes of the rows, without padding.
  int64_t bytes() const;
};

// Returns the bytes before the data of the first tensor. `tensors` follow each other in this order.
std::string container_header(const Pairs& pairs, std::span<const TensorInfo> tensors);

// Returns how many zeros follow `bytes` bytes of a tensor.
int64_t container_padding(int64_t bytes);

// Writes one file in bounded memory: the bytes of each tensor in the order of the infos. The file
// appears under its name only with finish() (io/atomic_file.h).
class ContainerWriter {
 public:
  static Result<ContainerWriter> create(const std::filesystem::path& path, const Pairs& pairs,
                                        std::vector<TensorInfo> tensors);

  // Appends the next bytes of the present tensor, which may come in several pieces.
  Status append(std::span<const std::byte> bytes);
  // Ends the present tensor, of which all bytes have been appended.
  Status end_tensor();
  // Returns what identifies the file, which need not be in place yet.
  Result<io::Inode> inode() const { return file_.inode(); }
  // Puts the file in place. All tensors have been ended.
  Status finish();

 private:
  ContainerWriter(io::AtomicFile file, std::vector<TensorInfo> tensors)
      : file_(std::move(file)), tensors_(std::move(tensors)) {}

  io::AtomicFile file_;
  std::vector<TensorInfo> tensors_;
  size_t tensor_ = 0;
  int64_t written_ = 0;  // bytes of the present tensor
};

}  // namespace neuronmm::gguf_out
