#include "tensor_parallel/slices.h"

#include <algorithm>
#include <cstring>

#include "base/coded_values.h"
#include "base/result.h"
#include "ops/low_bit.h"

namespace neuronmm::tensor_parallel {
namespace {

int64_t groups_of(int64_t columns, int64_t group) { return (columns + group - 1) / group; }

// Some columns of coded values, which must outlive them. Nothing is copied.
class CodedColumns : public CodedPart {
 public:
  CodedColumns(const CodedValues& all, const Share& columns) : CodedPart(all), columns_(columns) {}

  int64_t columns() const override { return columns_.count; }
  std::span<const int32_t> group_of_column() const override {
    return all_.group_of_column().subspan(static_cast<size_t>(columns_.first),
                                          static_cast<size_t>(columns_.count));
  }
  int64_t stored_bytes() const override {
    return all_.stored_bytes() * columns_.count / all_.columns();
  }
  void codes(int64_t row, int64_t first, int64_t count, uint8_t* out) const override {
    all_.codes(row, columns_.first + first, count, out);
  }

 private:
  Share columns_;
};

// Returns rows of a matrix that is not rounded. Rows in a foreign format may change places within
// attention heads, and a share of them is whole heads.
TensorView matrix_rows(const TensorView& matrix, const Share& rows) {
  const Shape before = {rows.first, matrix.columns()};
  const int64_t bytes = matrix.foreign != nullptr
                            ? matrix.foreign->size_bytes(before)
                            : rows.first * matrix.columns() * dtype_size_bytes(matrix.dtype);
  return {matrix.dtype, {rows.count, matrix.columns()}, matrix.data + bytes, matrix.foreign};
}

}  // namespace

Share share_in_units(int64_t count, int64_t unit, int process, int processes) {
  const Share units = parallel::share_of((count + unit - 1) / unit, process, processes);
  const int64_t first = std::min(count, units.first * unit);
  return {first, std::min(count, units.end() * unit) - first};
}

TensorView elements_of(const TensorView& vector, const Share& elements) {
  return {vector.dtype,
          {elements.count},
          vector.data + elements.first * dtype_size_bytes(vector.dtype)};
}

ops::WeightView rows_of(const ops::WeightView& weight, const Share& rows) {
  if (!weight.quantized()) return {matrix_rows(weight, rows)};
  return {weight.format,
          {rows.count, weight.columns()},
          weight.data + rows.first * ops::stored_row_bytes(weight.format, weight.columns()),
          matrix_rows(weight.scales, rows),
          weight.groups.empty() ? TensorView{} : matrix_rows(weight.groups, rows)};
}

ops::LinearWeight some_outputs(ops::LinearWeight weight, const Share& columns) {
  weight.w_t = rows_of(weight.w_t, columns);
  if (!weight.bias.empty()) weight.bias = elements_of(weight.bias, columns);
  return weight;
}

// Copies `bytes` bytes of every row, which are `columns` columns of the result.
TensorView ColumnCopies::copy(const TensorView& matrix, int64_t row_bytes, int64_t first_byte,
                              int64_t bytes, int64_t columns) {
  const int64_t rows = matrix.rows();
  auto& storage = storage_.emplace_back(static_cast<size_t>(rows * bytes));
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(storage.data() + i * bytes, matrix.data + i * row_bytes + first_byte,
                static_cast<size_t>(bytes));
  }
  return {matrix.dtype, {rows, columns}, storage.data()};
}

// Blocks of a foreign format cannot be cut, so their columns are copied in the format in which a
// backend packs them.
ops::WeightView ColumnCopies::foreign_columns(const TensorView& matrix, const Share& columns) {
  const LowBitFormat format = matrix.foreign->packed_format();
  const DType dtype = format.bits == 16 ? DType::kBF16 : DType::kF32;
  auto& storage = storage_.emplace_back();
  std::vector<float> row(static_cast<size_t>(columns.count));
  for (int64_t i = 0; i < matrix.rows(); ++i) {
    to_floats(matrix, i * matrix.columns() + columns.first, columns.count, row.data());
    append_rounded(dtype, row.data(), columns.count, storage);
  }
  const TensorView copied = {dtype, {matrix.rows(), columns.count}, storage.data()};
  if (format.bits >= 16) return {copied};
  const ops::WeightView rounded = rounded_.emplace_back(ops::quantize(copied, format)).view();
  storage_.pop_back();
  return rounded;
}

// Codes of 6 bits have two parts per row: the low bits of all columns, then their high bits.
ops::WeightView ColumnCopies::columns_of(const ops::WeightView& weight, const Share& columns) {
  if (const CodedValues* const all = coded_values(weight); all != nullptr) {
    const auto& part = coded_.emplace_back(std::make_unique<CodedColumns>(*all, columns));
    return {part->view(all->first_row(weight), weight.rows())};
  }
  if (weight.foreign != nullptr) return foreign_columns(weight, columns);
  const int64_t width = weight.columns();
  const auto of_type = [&](const TensorView& matrix, int64_t group) {
    const int64_t size = dtype_size_bytes(matrix.dtype), first = columns.first / group;
    const int64_t count = groups_of(columns.count, group);
    return copy(matrix, matrix.columns() * size, first * size, count * size, count);
  };
  if (!weight.quantized()) return {of_type(weight, 1)};
  NMM_CHECK(columns.first % ops::kQuantGroup == 0 &&
            (columns.end() % ops::kQuantGroup == 0 || columns.end() == width));
  const int64_t row_bytes = ops::stored_row_bytes(weight.format, width);
  const int64_t bytes = ops::stored_row_bytes(weight.format, columns.count);
  auto& storage = storage_.emplace_back(static_cast<size_t>(weight.rows() * bytes));
  const int per_byte = weight.format.bits == 8 ? 1 : 2;
  const int64_t low = (columns.count + per_byte - 1) / per_byte;
  for (int64_t i = 0; i < weight.rows(); ++i) {
    const std::byte* const row = weight.data + i * row_bytes;
    std::memcpy(storage.data() + i * bytes, row + columns.first / per_byte,
                static_cast<size_t>(low));
    if (weight.format.bits != 6) continue;
    std::memcpy(storage.data() + i * bytes + low, row + (width + 1) / 2 + columns.first / 4,
                static_cast<size_t>(bytes - low));
  }
  return {weight.format,
          {weight.rows(), columns.count},
          storage.data(),
          of_type(weight.scales, ops::kQuantGroup),
          weight.groups.empty() ? TensorView{} : of_type(weight.groups, weight.format.group)};
}

}  // namespace neuronmm::tensor_parallel
