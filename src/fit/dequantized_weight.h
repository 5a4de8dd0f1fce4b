#pragma once
// Rounded weights as floats, for rounding_losses.cc: `fit` measures the model with one part rounded
// and everything else as it is, so that the rounded part is multiplied as floats, too.

#include <vector>

#include "base/tensor.h"
#include "compress/rounding/smoothing.h"
#include "ops/backend.h"
#include "ops/low_bit.h"
#include "text/tokenizer/token_id.h"

namespace neuronmm::fit {

// The values that a rounded weight stands for, in fp32 and with the smoothing factors divided out.
struct DequantizedWeight {
  Shape shape;
  std::vector<float> values;

  TensorView view() const {
    return {DType::kF32, shape, reinterpret_cast<const std::byte*>(values.data())};
  }
};

// Returns the factor of a row or column; no factors stand for ones.
double factor_at(const std::vector<double>& factors, int64_t i);

// Returns `count` rows of the weight, from `first` on.
DequantizedWeight dequantized_rows(const ops::Codes& codes, const compress::TensorScale& scale,
                                   int64_t first, int64_t count);

// A rounded LM head whose floats are computed piece by piece while it multiplies.
class QuantizedHead final : public ops::Linear {
 public:
  QuantizedHead(ops::Codes codes, compress::TensorScale scale, const ops::Backend& backend)
      : codes_(std::move(codes)), scale_(std::move(scale)), backend_(&backend) {}

  // Returns the rows of the tokens, for a head that is the embedding table, too.
  Matrix embed(const std::vector<std::vector<text::TokenId>>& sequences) const;
  void apply(ConstMatrixView x, MutableMatrixView y) const override;

 private:
  ops::Codes codes_;
  compress::TensorScale scale_;
  const ops::Backend* backend_;
};

}  // namespace neuronmm::fit
