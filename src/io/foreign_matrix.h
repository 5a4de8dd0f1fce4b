#pragma once
// A matrix of coded values in one of the layouts of foreign_weights.h. All of them are described by
// where the fields of codes, scales and zero points are, so that one class reads them all.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/coded_values.h"
#include "base/tensor.h"

namespace neuronmm::io {

// A table of unsigned fields. Field (i, j) is in word [i, j / per word] of a matrix of 32-bit words
// if fields are packed along columns, and in word [i / per word, j] if they are packed along rows.
// A table of bytes has one field per byte.
struct FieldTable {
  enum class Packed { kAlongRows, kAlongColumns, kBytes };

  TensorView words;
  int bits = 4;
  Packed packed = Packed::kAlongColumns;
  bool interleaved = false;  // the order of AWQ within a word
  uint32_t added = 0;        // to every word
  uint8_t flipped = 0;       // bits of every byte that are inverted; 0x80 for signed bytes

  uint8_t at(int64_t i, int64_t j) const;
};

// The scale of row n and group g is element n / rows_per_scale · row_stride + g · group_stride.
struct ScaleTable {
  TensorView values;
  int64_t row_stride = 0, group_stride = 0, rows_per_scale = 1;

  float at(int64_t row, int64_t group) const;
};

struct ForeignMatrix : CodedValues {
  // Tables are [columns, rows] and [groups, rows] if they are transposed, as in GPTQ, and otherwise
  // [rows, columns] and [rows, groups]. Codes that are packed along rows are always transposed.
  bool codes_transposed = false, zeros_transposed = false;
  CodeKind code_kind = CodeKind::kInt4;
  int64_t row_count = 0, group_count = 0;
  FieldTable code_table;
  ScaleTable scale_table;
  // Zero points are the fields of zero_table plus zero_offset, or zero_offset if it has no words.
  FieldTable zero_table;
  float zero_offset = 0;
  int64_t bytes = 0;
  std::shared_ptr<const std::vector<int32_t>> group_of;  // [columns]

  CodeKind kind() const override { return code_kind; }
  int64_t rows() const override { return row_count; }
  int64_t columns() const override { return std::ssize(*group_of); }
  int64_t groups() const override { return group_count; }
  std::span<const int32_t> group_of_column() const override { return *group_of; }
  int64_t stored_bytes() const override { return bytes; }
  void codes(int64_t row, int64_t first, int64_t count, uint8_t* out) const override;
  void grid(int64_t row, float* scales, float* zeros) const override;
};

}  // namespace neuronmm::io
