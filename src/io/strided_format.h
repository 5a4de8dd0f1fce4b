#pragma once
// A matrix whose elements lie in a float tensor with any distance between rows and between columns,
// as a foreign format: a transposed matrix, or every second row. Nothing is copied.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/tensor.h"

namespace neuronmm::io {

class StridedFormat : public ForeignFormat {
 public:
  // Element (i, j) of the matrix [rows, columns] is element i * row_step + j * column_step after
  // `first`. The dtype is a float one.
  StridedFormat(DType dtype, const std::byte* first, const Shape& shape, int64_t row_step,
                int64_t column_step)
      : dtype_(dtype),
        first_(first),
        shape_(shape),
        row_step_(row_step),
        column_step_(column_step) {}

  TensorView view() const { return {DType::kForeign, shape_, first_, this}; }

  std::string_view name() const override { return dtype_name(dtype_); }
  int64_t size_bytes(const Shape& shape) const override {
    return TensorView{dtype_, shape, nullptr}.size_bytes();
  }
  // The `data` of a view tells its first row, as if the rows followed one another.
  void read(const TensorView& tensor, int64_t first, int64_t count, float* out) const override;
  LowBitFormat packed_format() const override { return {.bits = dtype_ == DType::kBF16 ? 16 : 32}; }

 private:
  const DType dtype_;
  const std::byte* const first_;
  const Shape shape_;
  const int64_t row_step_, column_step_;
};

}  // namespace neuronmm::io
