#pragma once
// Matrices of activations and gradients. Every step makes and drops matrices of the same sizes, so
// freed memory is kept for later ones. Letters: T is float, or double for tests and references.

#include <cstdint>
#include <utility>

#include "base/tensor.h"
#include "cpu/buffer.h"

namespace neuronmm::training {

// Memory for at least `count` elements, which is not initialised. Its destructor keeps the memory
// for the next object that asks for as much. Any thread may make or drop it.
template <typename Element>
class Pooled {
 public:
  Pooled() = default;
  explicit Pooled(int64_t count);
  ~Pooled();
  Pooled(Pooled&& other) noexcept { swap(other); }
  Pooled& operator=(Pooled&& other) noexcept {
    swap(other);
    return *this;
  }
  Element* data() const { return buffer_.data(); }
  cpu::Buffer<Element>& buffer() { return buffer_; }

 private:
  void swap(Pooled& other) {
    std::swap(buffer_, other.buffer_);
    std::swap(count_, other.count_);
  }
  cpu::Buffer<Element> buffer_;
  int64_t count_ = 0;
};

// Returns the bytes of all matrices in use that are large enough to be pooled.
int64_t pooled_bytes_in_use();
// Gives all memory that is kept for later back to the system.
void drop_pooled_memory();

// A matrix [rows, columns] that owns its memory, which is not initialised.
template <typename T>
class Rows {
 public:
  Rows() = default;
  Rows(int64_t rows, int64_t columns)
      : memory_(rows * columns * kFloats), rows_(rows), columns_(columns) {}
  Rows(Rows&& other) noexcept { swap(other); }
  Rows& operator=(Rows&& other) noexcept {
    swap(other);
    return *this;
  }

  bool empty() const { return columns_ == 0; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t size() const { return rows_ * columns_; }
  T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  T* row(int64_t i) const { return data() + i * columns_; }
  MatrixView<T> view() const { return {data(), rows_, columns_}; }
  void clear() { *this = Rows(); }

 private:
  static constexpr int64_t kFloats = sizeof(T) / sizeof(float);
  void swap(Rows& other) {
    std::swap(memory_, other.memory_);
    std::swap(rows_, other.rows_);
    std::swap(columns_, other.columns_);
  }
  Pooled<float> memory_;
  int64_t rows_ = 0, columns_ = 0;
};

// Copies a matrix, on all threads.
template <typename T>
Rows<T> copy_of(MatrixView<const T> x);
// Sets all elements to zero, on all threads.
template <typename T>
void clear(MatrixView<T> x);

}  // namespace neuronmm::training
