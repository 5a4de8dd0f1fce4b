#pragma once
// Reads the bytes of a GGUF file from front to back, one value after the other. Reading beyond the
// end is an error. GgufFile and GgufMetadata use it.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace neuronmm::io {

static_assert(std::endian::native == std::endian::little, "numbers are read in place");

// A position in the bytes of a file.
class GgufCursor {
 public:
  // `source` begins every message.
  GgufCursor(std::span<const std::byte> bytes, std::string source)
      : bytes_(bytes), source_(std::move(source)) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }
  std::span<const std::byte> rest() const { return bytes_.subspan(position_); }
  const std::string& source() const { return source_; }

  // Returns the next `size` bytes. Messages call the value `what`.
  Result<std::span<const std::byte>> take(uint64_t size, std::string_view what) {
    if (size > remaining())
      return fail("{}: {}: expected {} bytes from byte {} on, the file has {} more", source_, what,
                  size, position_, remaining());
    const auto taken = bytes_.subspan(position_, size);
    position_ += size;
    return taken;
  }
  // Returns the next number, which is little-endian.
  template <typename Number>
  Result<Number> number(std::string_view what) {
    NMM_ASSIGN(const auto bytes, take(sizeof(Number), what));
    Number value;
    std::memcpy(&value, bytes.data(), sizeof(Number));
    return value;
  }
  // Returns the next string, which is stored as a length of 64 bits and its bytes.
  Result<std::string_view> text(std::string_view what) {
    NMM_ASSIGN(const auto length, number<uint64_t>(what));
    NMM_ASSIGN(const auto bytes, take(length, what));
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  // Fails unless `count` values of at least `least_bytes` each can still follow.
  Status expect_remaining(uint64_t count, uint64_t least_bytes, std::string_view what) const {
    if (count > remaining() / least_bytes)
      return fail("{}: {}: {} of them do not fit the {} bytes that are left", source_, what, count,
                  remaining());
    return {};
  }

 private:
  std::span<const std::byte> bytes_;
  std::string source_;
  uint64_t position_ = 0;
};

}  // namespace neuronmm::io
