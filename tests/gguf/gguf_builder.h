#pragma once
// Writes GGUF files for tests. The files may be illegal: every part is as the test gives it.

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::io {

template <typename Number>
std::string little_endian(Number value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

inline std::string gguf_string(std::string_view text) {
  return little_endian<uint64_t>(text.size()).append(text);
}

// Collects the parts of a file.
class GgufBuilder {
 public:
  uint32_t version = 3;
  // The alignment of what follows. The test itself writes the key.
  uint64_t alignment = 32;

  // Adds a pair. `type` is the number in the file, and `value` holds the bytes after it.
  GgufBuilder& pair(std::string_view key, uint32_t type, std::string_view value) {
    pairs_ += gguf_string(key) + little_endian(type) + std::string(value);
    ++pair_count;
    return *this;
  }
  GgufBuilder& u32(std::string_view key, uint32_t value) {
    return pair(key, 4, little_endian(value));
  }
  GgufBuilder& f32(std::string_view key, float value) { return pair(key, 6, little_endian(value)); }
  GgufBuilder& boolean(std::string_view key, bool value) {
    return pair(key, 7, little_endian<uint8_t>(value));
  }
  GgufBuilder& text(std::string_view key, std::string_view value) {
    return pair(key, 8, gguf_string(value));
  }
  GgufBuilder& texts(std::string_view key, const std::vector<std::string>& values) {
    std::string bytes = little_endian<uint32_t>(8) + little_endian<uint64_t>(values.size());
    for (const std::string& value : values) bytes += gguf_string(value);
    return pair(key, 9, bytes);
  }
  template <typename Number>
  GgufBuilder& numbers(std::string_view key, uint32_t type, const std::vector<Number>& values) {
    std::string bytes = little_endian(type) + little_endian<uint64_t>(values.size());
    for (const Number value : values) bytes += little_endian(value);
    return pair(key, 9, bytes);
  }

  // Adds a tensor after the one before, aligned. `extents` are as in the file, with the row length
  // first.
  GgufBuilder& tensor(std::string_view name, const std::vector<uint64_t>& extents, uint32_t type,
                      std::string_view data) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment, '\0');
    info(name, extents, type, data_.size());
    data_ += data;
    return *this;
  }
  GgufBuilder& tensor(std::string_view name, const std::vector<uint64_t>& extents,
                      const std::vector<float>& values) {
    return tensor(name, extents, 0,
                  {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }
  // Adds an entry without data, wherever it points.
  GgufBuilder& info(std::string_view name, const std::vector<uint64_t>& extents, uint32_t type,
                    uint64_t offset) {
    infos_ += gguf_string(name) + little_endian(static_cast<uint32_t>(extents.size()));
    for (const uint64_t extent : extents) infos_ += little_endian(extent);
    infos_ += little_endian(type) + little_endian(offset);
    ++tensor_count;
    return *this;
  }

  std::string header() const {
    return "GGUF" + little_endian(version) + little_endian(tensor_count) +
           little_endian(pair_count) + pairs_ + infos_;
  }
  std::string bytes() const {
    std::string bytes = header();
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment, '\0');
    return bytes + data_;
  }

  // The counts in the header, which a test may change.
  uint64_t tensor_count = 0, pair_count = 0;

 private:
  std::string pairs_, infos_, data_;
};

}  // namespace neuronmm::io
