#pragma once
// The key-value pairs of a GGUF file (ggml-org/ggml, docs/gguf.md), read key by key with errors
// that name the file, the key, what was expected and what was found.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/gguf_cursor.h"

namespace neuronmm::io {

// The numbers in the files.
enum class GgufValueType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64
};

// Views of the file's bytes.
struct GgufValue {
  GgufValueType type;     // of the elements, if it is an array
  bool is_array = false;  // else it has one element
  uint64_t count = 1;
  std::span<const std::byte> numbers;     // little-endian and unaligned; empty for strings
  std::vector<std::string_view> strings;  // empty for numbers
  // Arrays of arrays are checked and not kept: no key that we read has one.
};

class GgufMetadata {
 public:
  // The next `count` pairs. Errors: a key twice, too long or empty, an unknown type, a bool that is
  // neither 0 nor 1, strings, arrays or nestings beyond the file or our limits.
  static Result<GgufMetadata> read(GgufCursor& cursor, uint64_t count);

  const std::string& source() const { return source_; }
  const GgufValue* find(std::string_view key) const;  // nullptr: absent
  bool has(std::string_view key) const { return find(key) != nullptr; }
  int64_t size() const { return std::ssize(values_); }

  // A key that is absent reads as nullopt; one of another type is an error. Any width of integer is
  // one. A float32 reads as the decimal number that it prints as: 1e-05 and not 9.9999997e-06.
  Result<std::optional<int64_t>> integer(std::string_view key) const;
  Result<std::optional<double>> number(std::string_view key) const;
  Result<std::optional<bool>> boolean(std::string_view key) const;
  Result<std::optional<std::string>> string(std::string_view key) const;
  // Arrays; without elements when absent.
  Result<std::vector<std::string_view>> strings(std::string_view key) const;
  Result<std::vector<int64_t>> integers(std::string_view key) const;
  Result<std::vector<double>> numbers(std::string_view key) const;

  // `source: "key": expected ..., found ...`
  Error wrong(std::string_view key, std::string_view expected) const;
  Error missing(std::string_view key) const;

 private:
  std::string source_;
  std::map<std::string_view, GgufValue> values_;
};

}  // namespace neuronmm::io
