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

#include "base/low_bit_format.h"
#include "base/result.h"

namespace neuronmm {

// The dtypes of the safetensors format that we store or read. dtype_name() gives their names as in
// its header: "F32", "BF16", ... A tensor of kF8 (F8_E4M3) has no scales of its own, so it is no
// float dtype here. A tensor of dtype kForeign holds floats in a format of another program
// (ForeignFormat below). It is read, but never written.
enum class DType { kF64, kF32, kF16, kBF16, kI64, kI32, kI8, kU8, kF8, kForeign };

// Elements of a foreign format have no size of their own, so kForeign is a programming error here.
int64_t dtype_size_bytes(DType dtype);
std::string_view dtype_name(DType dtype);
// Never returns kForeign.
Result<DType> parse_dtype(std::string_view name);
// Returns whether to_floats() reads tensors of this dtype.
bool is_float(DType dtype);
// Returns the dtype in which a tensor of `dtype` is written into a folder. It is BF16 for foreign
// formats, and `dtype` for all others.
inline DType written_dtype(DType dtype) { return dtype == DType::kForeign ? DType::kBF16 : dtype; }

using Shape = std::vector<int64_t>;
std::string shape_string(const Shape& shape);  // "[2048, 8192]"

struct TensorView;
class CodedValues;

// What the bytes of a tensor of dtype kForeign mean. The source of the tensor, such as a GGUF file,
// owns the object, and several threads may call it at once.
class ForeignFormat {
 public:
  virtual ~ForeignFormat() = default;
  // Returns the name that users know: "Q4_K".
  virtual std::string_view name() const = 0;
  // Returns how many bytes a tensor of this shape has.
  virtual int64_t size_bytes(const Shape& shape) const = 0;
  // Writes `count` elements, beginning with element `first`, in fp32.
  virtual void read(const TensorView& tensor, int64_t first, int64_t count, float* out) const = 0;
  // Returns the format of ours that a backend packs the tensor in if its kernels multiply only our
  // own formats. Its bits may also be 16 or 32, which stand for bf16 and fp32.
  virtual LowBitFormat packed_format() const = 0;
  // Returns the codes, scales and zero points of the whole matrix if the format is a grid
  // (base/coded_values.h), and null otherwise.
  virtual const CodedValues* coded() const { return nullptr; }
};

// A tensor in memory that somebody else owns. `data` may be unaligned for its dtype, so it must be
// read with to_floats() or to_doubles(), or copied.
struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  const std::byte* data = nullptr;
  // Null unless the dtype is kForeign.
  const ForeignFormat* foreign = nullptr;

  bool empty() const { return data == nullptr; }
  int64_t size() const;  // number of elements
  int64_t size_bytes() const;
  int64_t rows() const { return shape.at(0); }
  int64_t columns() const { return shape.at(1); }
};

// Returns the name of the tensor's dtype or foreign format.
std::string_view type_name(const TensorView& tensor);

// Converts `count` elements, beginning with element `first`, to fp32 or fp64. The tensor must have
// a float dtype. F64 is rounded to the nearest fp32.
void to_floats(const TensorView& tensor, int64_t first, int64_t count, float* out);
void to_doubles(const TensorView& tensor, int64_t first, int64_t count, double* out);

// Rounds fp32 or fp64 values to `dtype`, which must be a float dtype, and appends their
// little-endian bytes to `out`. Rounds to nearest even.
void append_rounded(DType dtype, const float* values, int64_t count, std::vector<std::byte>& out);
void append_rounded(DType dtype, const double* values, int64_t count, std::vector<std::byte>& out);

// Returns the tensor with its elements in a dtype of ours. A foreign tensor is rounded to `dtype`,
// and the bytes of the result are in `storage`, which must outlive it. Any other tensor is returned
// as it is, and `storage` is not touched.
TensorView without_foreign(const TensorView& tensor, DType dtype, std::vector<std::byte>& storage);

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
