#pragma once
// Reads the key-value pairs of a GGUF file (ggml-org/ggml, docs/gguf.md). Errors name the file, the
// key, what was expected and what was found.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf_cursor.h"

namespace neuronmm::io {

// The types of values, with the numbers that files contain.
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

// A value as views of the file's bytes.
struct GgufValue {
  // The type of the elements if the value is an array.
  GgufValueType type;
  // If false, the value has one element.
  bool is_array = false;
  uint64_t count = 1;
  // The elements as the file has them. Numbers are little-endian and unaligned. Each string is its
  // length in 64 bits and its bytes, and all strings have been checked to lie within the span.
  // Arrays of arrays are checked but not kept, because no key that we read has one.
  std::span<const std::byte> elements;
};

// The pairs of a file.
class GgufMetadata {
 public:
  // Reads the next `count` pairs. Fails if a key is repeated, too long or empty, or if a type is
  // unknown. A bool that is neither 0 nor 1 is an error. Strings, arrays and nestings must not
  // exceed the file or our limits, so that reading takes less memory than the file.
  static Result<GgufMetadata> read(GgufCursor& cursor, uint64_t count);

  const std::string& source() const { return source_; }
  // Returns null if the key is missing.
  const GgufValue* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }
  // Returns the number of elements of a value, which is 0 if the key is missing.
  uint64_t count(std::string_view key) const;
  int64_t size() const { return std::ssize(values_); }

  // Return the value of a key, or nullopt if the key is missing. A value of another type is an
  // error, but integers may have any width. A float32 reads as the decimal number that it prints
  // as: 1e-05 and not 9.9999997e-06.
  Result<std::optional<int64_t>> integer(std::string_view key) const;
  Result<std::optional<double>> number(std::string_view key) const;
  Result<std::optional<bool>> boolean(std::string_view key) const;
  Result<std::optional<std::string>> string(std::string_view key) const;
  // Return the elements of an array, or none if the key is missing.
  Result<std::vector<std::string_view>> strings(std::string_view key) const;
  Result<std::vector<int64_t>> integers(std::string_view key) const;
  Result<std::vector<double>> numbers(std::string_view key) const;

  // Returns the error `source: "key": expected ..., found ...`.
  Error wrong(std::string_view key, std::string_view expected) const;
  Error missing(std::string_view key) const;

 private:
  std::string source_;
  std::map<std::string_view, GgufValue> values_;
};

}  // namespace neuronmm::io
