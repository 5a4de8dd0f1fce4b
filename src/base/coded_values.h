#pragma once
// Weights that stay in the compact form in which another program stored them. A matrix [rows,
// columns] has a code per element and, per row and group of columns, a scale and a zero point:
//
//   value = scale · (code - zero)      for codes of 4 and 8 bits
//   value = scale · code + minimum     the same, if adds_minimum()
//   value = scale · table[code]        for codes of 4 bits that stand for 16 signed bytes
//   value = scale · float8(code)       for codes that are floats of 8 bits (E4M3, no infinities)
//
// They are computed in fp32. A difference of integers below 2^9 times a scale of fp16 or bf16 has
// at most 20 significant bits, so that fp32 holds it exactly. With scales of fp32, with a minimum,
// and with floats of 8 bits, the result is rounded once.
//
// io/foreign_weights.h makes such matrices from the tensors of a folder, and gguf/coded_blocks.h
// from those of a GGUF file. A TensorView of dtype kForeign refers to one, or to some of its rows.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/tensor.h"

namespace neuronmm {

enum class CodeKind { kInt4, kInt8, kFloat8, kTable4 };

// Returns how many codes of a kind a byte holds.
constexpr int64_t codes_per_byte(CodeKind kind) {
  return kind == CodeKind::kInt4 || kind == CodeKind::kTable4 ? 2 : 1;
}

// Returns the value of a float of 8 bits: a sign, 4 bits of exponent with bias 7, and 3 bits of
// fraction. The codes 127 and 255 are NaN (OCP 8-bit Floating Point Specification, revision 1.0,
// section 5.2).
float float8_value(uint8_t code);

// The factors of the scales and minimums of a row (CodedValues::factors). The outer ones have an
// element per `groups_per_outer` groups, the bytes one per group.
struct GridFactors {
  float* outer_scales;
  float* outer_minimums;
  int8_t* scale_bytes;
  int8_t* minimum_bytes;
};

class CodedValues : public ForeignFormat {
 public:
  virtual CodeKind kind() const = 0;
  virtual int64_t rows() const = 0;
  virtual int64_t columns() const = 0;
  // Returns the number of groups of a row.
  virtual int64_t groups() const = 0;
  // Returns the group of each column. Groups need not be ranges of columns.
  virtual std::span<const int32_t> group_of_column() const = 0;
  // Returns the bytes that the codes, scales and zero points take where they are stored.
  virtual int64_t stored_bytes() const = 0;
  // Writes the codes of columns [first, first + count) of a row.
  virtual void codes(int64_t row, int64_t first, int64_t count, uint8_t* out) const = 0;
  // Writes the scales of all groups of a row, and their zero points or minimums. Those of kFloat8
  // and kTable4 are 0.
  virtual void grid(int64_t row, float* scales, float* zeros) const = 0;
  // Returns whether grid() writes minimums instead of zero points. Only codes of 4 and 8 bits may
  // have them.
  virtual bool adds_minimum() const { return false; }
  // Returns the bytes that the codes of kTable4 stand for.
  virtual const std::array<int8_t, 16>& table() const;
  // Returns how many neighbouring groups share an outer scale, or 0. If they do, the scale of a
  // group is the product of the outer scale, a number that fp16 holds, and a byte. Minimums are
  // such products, too.
  virtual int64_t groups_per_outer() const { return 0; }
  // Writes the factors of a row's scales and minimums, if groups_per_outer() is not 0.
  virtual void factors(int64_t row, const GridFactors& out) const;

  // Returns a view of the matrix or of some of its rows. The matrix must outlive the view. The
  // bytes of a view are nowhere in memory: its `data` only tells which row is the first, in steps
  // of the mean number of bytes that a row takes.
  TensorView view() const { return view(0, rows()); }
  TensorView view(int64_t first, int64_t count) const;
  // Returns the row of the matrix that is the first one of a view.
  int64_t first_row(const TensorView& view) const;

  std::string_view name() const override;
  int64_t size_bytes(const Shape& shape) const override;
  void read(const TensorView& view, int64_t first, int64_t count, float* out) const override;
  // With 32 bits, backends keep the codes if they have kernels for them, and fp32 otherwise. With
  // fewer bits, they keep the codes only if exact weights are wanted.
  LowBitFormat packed_format() const override { return {.bits = 32}; }
  const CodedValues* coded() const override { return this; }

 private:
  int64_t row_bytes() const;
};

// Coded values that are made of others: some of their rows or columns. The codes have the same
// meaning.
class CodedPart : public CodedValues {
 public:
  explicit CodedPart(const CodedValues& all) : all_(all) {}
  CodeKind kind() const override { return all_.kind(); }
  int64_t rows() const override { return all_.rows(); }
  int64_t columns() const override { return all_.columns(); }
  int64_t groups() const override { return all_.groups(); }
  std::span<const int32_t> group_of_column() const override { return all_.group_of_column(); }
  bool adds_minimum() const override { return all_.adds_minimum(); }
  const std::array<int8_t, 16>& table() const override { return all_.table(); }
  int64_t groups_per_outer() const override { return all_.groups_per_outer(); }
  std::string_view name() const override { return all_.name(); }
  void codes(int64_t row, int64_t first, int64_t count, uint8_t* out) const override {
    all_.codes(row, first, count, out);
  }
  void grid(int64_t row, float* scales, float* zeros) const override {
    all_.grid(row, scales, zeros);
  }
  void factors(int64_t row, const GridFactors& out) const override { all_.factors(row, out); }
  LowBitFormat packed_format() const override { return all_.packed_format(); }

 protected:
  const CodedValues& all_;
};

// Some rows of coded values in any order. The values must outlive them, and nothing is copied.
class CodedRows : public CodedPart {
 public:
  // Row i is row order[i] of `all`.
  CodedRows(const CodedValues& all, std::vector<int64_t> order)
      : CodedPart(all), order_(std::move(order)) {}

  int64_t rows() const override { return static_cast<int64_t>(order_.size()); }
  int64_t stored_bytes() const override;
  void codes(int64_t row, int64_t first, int64_t count, uint8_t* out) const override {
    all_.codes(order_[static_cast<size_t>(row)], first, count, out);
  }
  void grid(int64_t row, float* scales, float* zeros) const override {
    all_.grid(order_[static_cast<size_t>(row)], scales, zeros);
  }
  void factors(int64_t row, const GridFactors& out) const override {
    all_.factors(order_[static_cast<size_t>(row)], out);
  }

 private:
  std::vector<int64_t> order_;
};

// Returns the coded values that a tensor is a view of, or null.
inline const CodedValues* coded_values(const TensorView& tensor) {
  return tensor.foreign == nullptr ? nullptr : tensor.foreign->coded();
}

}  // namespace neuronmm
