#pragma once
// A stream of hidden states: one row for every token of a text, before or behind a layer. It lies
// in memory, or in a file without a name, which disappears with the process.

#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "training/memory.h"

namespace neuronmm::compress {

class HiddenStates {
 public:
  // Makes [tokens, width] numbers, which are not initialised. If `file` is not empty, they lie in
  // this file, whose name is free again at once. Fails if the file cannot be made or the disk has
  // too little space.
  static Result<HiddenStates> create(int64_t tokens, int64_t width,
                                     const std::filesystem::path& file = {});
  HiddenStates(HiddenStates&& other) noexcept;
  HiddenStates& operator=(HiddenStates&&) = delete;
  ~HiddenStates();

  // Return and replace the rows from `first` on. Fail if the file cannot be read or written.
  Result<training::Rows<float>> read(int64_t first, int64_t count) const;
  Status write(int64_t first, MatrixView<const float> rows);

 private:
  HiddenStates(int64_t width, std::filesystem::path name) : width_(width), name_(std::move(name)) {}
  int64_t row_bytes() const { return width_ * static_cast<int64_t>(sizeof(float)); }

  int64_t width_;
  std::filesystem::path name_;  // of the file, for messages
  int file_ = -1;               // -1: in memory
  training::Rows<float> rows_;
};

}  // namespace neuronmm::compress
