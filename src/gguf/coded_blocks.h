#pragma once
// Matrices of GGUF blocks whose weights are codes with a scale per group, as coded values
// (base/coded_values.h), so that kernels which expand codes run the blocks as they are. The blocks
// stay in the mapped file. Values have the bits of dequantize().

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/coded_values.h"
#include "gguf/block_format.h"
#include "gguf/gguf_types.h"

namespace neuronmm::gguf {

// Where a matrix lies in a file. See BlockFormat for `head_rows`.
struct BlockMatrix {
  const io::GgufTypeInfo* type;
  const std::byte* data;
  int64_t rows, columns;
  int64_t head_rows;
};

class CodedBlocks : public CodedValues {
 public:
  // Returns null if the weights of the type are no such codes. `packed` is the format that a
  // backend packs the matrix in unless it wants exact weights. If its bits are 32, it keeps the
  // codes.
  static std::unique_ptr<const CodedBlocks> make(const BlockMatrix& matrix,
                                                 const LowBitFormat& packed);

  CodeKind kind() const override;
  int64_t rows() const override { return matrix_.rows; }
  int64_t columns() const override { return matrix_.columns; }
  int64_t groups() const override;
  std::span<const int32_t> group_of_column() const override { return group_of_column_; }
  int64_t stored_bytes() const override { return matrix_.rows * row_bytes(); }
  void codes(int64_t row, int64_t first, int64_t count, uint8_t* out) const override;
  void grid(int64_t row, float* scales, float* zeros) const override;
  bool adds_minimum() const override;
  const std::array<int8_t, 16>& table() const override;
  int64_t groups_per_outer() const override;
  void factors(int64_t row, const GridFactors& out) const override;

  std::string_view name() const override { return blocks_.name(); }
  void read(const TensorView& view, int64_t first, int64_t count, float* out) const override;
  LowBitFormat packed_format() const override { return packed_; }

  struct Type;

 private:
  CodedBlocks(const Type& type, const BlockMatrix& matrix, const LowBitFormat& packed);
  int64_t row_bytes() const {
    return matrix_.columns / matrix_.type->block_elements * matrix_.type->block_bytes;
  }
  const std::byte* row_at(int64_t row) const {
    return matrix_.data + stored_row(row, matrix_.head_rows) * row_bytes();
  }

  const Type& type_;
  const BlockMatrix matrix_;
  const BlockFormat blocks_;
  const LowBitFormat packed_;
  std::vector<int32_t> group_of_column_;
};

}  // namespace neuronmm::gguf
