#pragma once
// Tensors for all other code: TensorView for what a checkpoint holds (any dtype, read-only, mapped
// memory), Matrix and MatrixView for fp32 activations. All are row-major with a contiguous last
// dimension. Only a MatrixView may have gaps between its rows. Views do not keep their memory
// alive. Indices of rows and elements are not checked. Only parse_dtype() can fail.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace neuronmm {

class CodedValues;

// The dtypes of the safetensors format that we store or read. dtype_name() gives their names as in
// its header: "F32", "BF16", ... A tensor of kF8 (F8_E4M3) needs scales, so it is not a float dtype
// here.
//
// kCoded stands for fp32 values that are computed from codes whenever they are read
// (base/coded_values.h). It has the name and the size of fp32, so that files which such a tensor is
// written to hold fp32. It is never parsed.
enum class DType { kF64, kF32, kF16, kBF16, kI64, kI32, kI8, kU8, kF8, kCoded };

int64_t dtype_size_bytes(DType dtype);
std::string_view dtype_name(DType dtype);
Result<DType> parse_dtype(std::string_view name);
bool is_float(DType dtype);
// Returns the dtype of new weights that take the place of weights of `dtype`: bf16 in place of
// codes, and otherwise the same dtype.
DType replacing_dtype(DType dtype);

using Shape = std::vector<int64_t>;
std::string shape_string(const Shape& shape);  // "[2048, 8192]"

// A tensor in memory that somebody else owns. `data` may be unaligned for its dtype, so it must be
// read with to_floats() or to_doubles(), or copied.
//
// The bytes of a tensor of dtype kCoded are nowhere in memory. Its `data` is the address of its
// CodedValues, and what needs bytes calls in_memory() first.
struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  const std::byte* data = nullptr;
  // For kCoded: the row of the coded values that is the tensor's first one.
  int64_t first_coded_row = 0;

  bool empty() const { return data == nullptr; }
  int64_t size() const;  // number of elements
  // Returns the bytes that the tensor takes. For kCoded these are the bytes of its codes.
  int64_t size_bytes() const;
  // Returns the coded values, or nullptr if the tensor has another dtype.
  const CodedValues* coded() const {
    return dtype == DType::kCoded ? reinterpret_cast<const CodedValues*>(data) : nullptr;
  }
  int64_t rows() const { return shape.at(0); }
  int64_t columns() const { return shape.at(1); }
};

// Returns a view of rows [first, first + count) of a matrix.
TensorView rows_of(const TensorView& matrix, int64_t first, int64_t count);
// Returns the tensor itself or, if its dtype is kCoded, an fp32 copy in `storage`.
TensorView in_memory(const TensorView& tensor, std::vector<float>& storage);

// Converts `count` elements, beginning with element `first`, to fp32 or fp64. The tensor must have
// a float dtype. F64 is rounded to the nearest fp32.
void to_floats(const TensorView& tensor, int64_t first, int64_t count, float* out);
void to_doubles(const TensorView& tensor, int64_t first, int64_t count, double* out);

// Rounds fp32 or fp64 values to `dtype`, which must be a float dtype, and appends their
// little-endian bytes to `out`. Rounds to nearest even.
void append_rounded(DType dtype, const float* values, int64_t count, std::vector<std::byte>& out);
void append_rounded(DType dtype, const double* values, int64_t count, std::vector<std::byte>& out);

// A [rows, columns] window on memory that somebody else owns. Row i starts at data + i * stride.
template <typename T>
struct MatrixView {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;

  MatrixView() = default;
  MatrixView(T* d, int64_t r, int64_t c) : data(d), rows(r), columns(c), stride(c) {}
  MatrixView(T* d, int64_t r, int64_t c, int64_t s) : data(d), rows(r), columns(c), stride(s) {}
  // A mutable view converts to a read-only one.
  operator MatrixView<const T>() const { return {data, rows, columns, stride}; }

  T* row(int64_t i) const { return data + i * stride; }
  MatrixView row_range(int64_t first, int64_t count) const {
    return {data + first * stride, count, columns, stride};
  }
};
using ConstMatrixView = MatrixView<const float>;
using MutableMatrixView = MatrixView<float>;

// An fp32 matrix [rows, columns] that owns its memory, initialised with zeros.
class Matrix {
 public:
  Matrix() = default;
  Matrix(int64_t rows, int64_t columns)
      : rows_(rows), columns_(columns), values_(static_cast<size_t>(rows * columns)) {}

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  float* data() { return values_.data(); }
  const float* data() const { return values_.data(); }
  float* row(int64_t i) { return data() + i * columns_; }
  const float* row(int64_t i) const { return data() + i * columns_; }
  MutableMatrixView view() { return {data(), rows_, columns_}; }
  ConstMatrixView view() const { return {data(), rows_, columns_}; }

 private:
  int64_t rows_ = 0, columns_ = 0;
  std::vector<float> values_;
};

}  // namespace neuronmm
