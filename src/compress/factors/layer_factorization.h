#pragma once
// Factorizes the matrices of one layer's MLP (factorize.h). `compress` uses it for form uv, in its
// own process and in jobs (factor_jobs.h).

#include <optional>
#include <string>

#include "base/result.h"
#include "compress/factors/factorize.h"
#include "compress/factors/mlp_matrix.h"
#include "compress/linear_algebra/gram.h"
#include "ops/weights.h"

namespace neuronmm::compress {

// The factorization of a layer's matrices, whitened by Gram matrices or, without them, plain. Gate
// and up read the same input and share the root of its Gram matrix. down is whitened by the Gram
// matrix of its output.
class LayerFactorization {
 public:
  explicit LayerFactorization(std::optional<LayerGrams> grams) : grams_(std::move(grams)) {}
  // Factorizes one matrix. down can be factorized only once, because its Gram matrix is used up.
  // Fails if a weight is not finite or if LAPACK fails. Errors name `model`, the layer and the
  // matrix.
  Result<Factors> factors(const ops::MlpWeight& mlp, int64_t layer, MlpMatrix matrix, int64_t rank,
                          const StoredFormat& stored, const std::string& model);

 private:
  Result<Factors> factorize(MlpMatrix matrix, const DoubleMatrix& w_t, int64_t rank,
                            const StoredFormat& stored);
  std::optional<LayerGrams> grams_;
  // The root of the input's Gram matrix. Empty until it is needed.
  DoubleMatrix root_;
};

}  // namespace neuronmm::compress
