#pragma once
// A tensor of a model with the update of an adapter: W + scale·L·R, where L and R are small.
// Nothing is stored. The values are computed when they are read, in fp32, and rounded once to the
// dtype that the tensor has without the update. Tensors in foreign formats, whose blocks could not
// hold the update, become bf16.
//
// With magnitudes m (DoRA), row i is m[i] / |W + scale·L·R|[i] times itself, where |·| is the
// Euclidean norm of the row.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace neuronmm::io {

// The product of two matrices that is added to a tensor [rows, columns]. `rank` 0 adds nothing.
struct LowRankUpdate {
  using Values = std::shared_ptr<const std::vector<float>>;

  int64_t rank = 0;
  Values left;   // L, [rows, rank]
  Values right;  // R, [rank, columns]
  float scale = 1.0f;
  Values magnitudes;  // m, [rows]; null without DoRA
};

class MergedTensor : public ForeignFormat {
 public:
  // `base` is a matrix or a vector of floats, whose memory must outlive this object.
  MergedTensor(const TensorView& base, LowRankUpdate update, DType dtype);

  // Returns the whole tensor, which is a view of this object.
  TensorView view() const;

  std::string_view name() const override { return dtype_name(dtype_); }
  int64_t size_bytes(const Shape& shape) const override;
  void read(const TensorView& view, int64_t first, int64_t count, float* out) const override;
  LowBitFormat packed_format() const override { return {.bits = dtype_ == DType::kBF16 ? 16 : 32}; }

  // Returns the dtype whose values the tensor has.
  DType dtype() const { return dtype_; }

 private:
  void read_row(int64_t row, int64_t first, int64_t count, float* out) const;
  void add_product(int64_t row, int64_t first, int64_t count, float* out) const;
  void round(float* values, int64_t count) const;

  TensorView base_;
  LowRankUpdate update_;
  DType dtype_;
  int64_t columns_;
};

// Returns the dtype of a merged tensor: that of `base`, F32 for F64, and BF16 for foreign formats.
// A merged tensor keeps its dtype.
DType merged_dtype(const TensorView& base);

// Returns the merged tensor that a view belongs to, or null. Its bytes are nowhere in memory.
const MergedTensor* merged_tensor(const TensorView& tensor);

}  // namespace neuronmm::io
