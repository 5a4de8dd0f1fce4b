#pragma once
// Turns values into the bytes that one process sends to another process of the same program
// (data_parallel.h). The writer and the reader go through the values in the same order, so a
// message holds no names or types. A reader that asks for other values than were written gets wrong
// values, or aborts at the end of the message.

#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "compress/linear_algebra/linear_algebra.h"
#include "parallel/communicator.h"

namespace neuronmm::compress {

using Bytes = parallel::Communicator::Bytes;

// Collects values. Vectors, texts and matrices begin with their sizes.
class MessageWriter {
 public:
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    append(std::as_bytes(std::span(&value, 1)));
  }
  template <typename T>
  void put_all(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    put(static_cast<int64_t>(values.size()));
    append(std::as_bytes(values));
  }
  template <typename T>
  void put(const std::vector<T>& values) {
    put_all(std::span<const T>(values));
  }
  void put(const std::string& text) { put_all(std::span<const char>(text)); }
  void put(const DoubleMatrix& matrix) {
    put(matrix.rows());
    put(matrix.columns());
    append(std::as_bytes(std::span(matrix.data(), static_cast<size_t>(matrix.size()))));
  }
  void append(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

// Reads values from `bytes`, which must outlive the reader.
class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T>
  T value() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(static_cast<void*>(&value), take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  template <typename T>
  std::vector<T> values() {
    std::vector<T> values(static_cast<size_t>(value<int64_t>()));
    copy(std::as_writable_bytes(std::span(values)));
    return values;
  }
  std::string text() {
    const std::vector<char> letters = values<char>();
    return {letters.begin(), letters.end()};
  }
  DoubleMatrix matrix() {
    const auto rows = value<int64_t>(), columns = value<int64_t>();
    DoubleMatrix matrix(rows, columns);
    copy(std::as_writable_bytes(std::span(matrix.data(), static_cast<size_t>(matrix.size()))));
    return matrix;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::span<const std::byte> take(size_t count) {
    NMM_CHECK(count <= rest_.size());
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  void copy(std::span<std::byte> out) {
    const auto bytes = take(out.size());
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size());
  }
  std::span<const std::byte> rest_;
};

}  // namespace neuronmm::compress
