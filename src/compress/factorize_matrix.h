#pragma once
// One matrix of a model: its weight is read, factorized, and kept in the work folder.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "compress/factorize.h"
#include "compress/gram.h"
#include "compress/plan.h"
#include "compress/staged_work.h"
#include "compress/stored_format.h"
#include "ops/weights.h"

namespace neuronmm::compress {

using OnMatrix = std::function<void(const MatrixReport&)>;

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

// Keeps what was computed.
Result<MatrixReport> save_factors(const MatrixPlan& plan, const Factors& factors,
                                  const StoredFormat& stored, const StagedWork& work);

}  // namespace neuronmm::compress
