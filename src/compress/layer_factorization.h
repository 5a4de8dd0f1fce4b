#pragma once
// The factors of the matrices of one layer.

#include <optional>
#include <string>

#include "base/result.h"
#include "compress/factorize.h"
#include "compress/gram.h"
#include "compress/mlp_matrix.h"
#include "ops/weights.h"

namespace neuronmm::compress {

// The factors of a layer's matrices: whitened, or without Gram matrices plain. Gate and up read the
// same input and share its whitening root; down is whitened by its output.
class LayerFactorization {
 public:
  explicit LayerFactorization(std::optional<LayerGrams> grams) : grams_(std::move(grams)) {}
  // Errors name `model`, the layer and the matrix: a weight that is not finite, LAPACK's.
  Result<Factors> factors(const ops::MlpWeight& mlp, int64_t layer, MlpMatrix matrix, int64_t rank,
                          const StoredFormat& stored, const std::string& model);

 private:
  Result<Factors> factorize(MlpMatrix matrix, const DoubleMatrix& w_t, int64_t rank,
                            const StoredFormat& stored);
  std::optional<LayerGrams> grams_;
  DoubleMatrix root_;  // of the input; empty: not needed yet
};

}  // namespace neuronmm::compress
