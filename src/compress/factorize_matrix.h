#pragma once
// One matrix of a model: its weight is read, factorized, and kept in the work folder.

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "compress/factorize.h"
#include "compress/plan.h"
#include "compress/staged_work.h"
#include "ops/weights.h"

namespace neuronmm::compress {

using OnMatrix = std::function<void(const MatrixReport&)>;
using Factorization = std::function<Result<Factors>(const DoubleMatrix& w_t, DType stored)>;

// The dtype of the factors of a `weight` in the work folder: fp32 holds what int8 factors stand for
// exactly.
DType staged_dtype(WeightFormat format, DType weight);

// Errors name `model`, the layer and the matrix: a weight that is not finite, LAPACK's, the disk's.
Result<MatrixReport> factorize_matrix(const ops::MlpWeight& mlp, const MatrixPlan& plan,
                                      const Factorization& factorization, WeightFormat format,
                                      const StagedWork& work, const std::string& model);

// An MLP of which some matrices are factors in a work folder, to run before the model is written.
class FactoredMlp {
 public:
  explicit FactoredMlp(const ops::MlpWeight& dense) : weight_(dense) {}
  Status use_factors(const StagedWork& work, int64_t layer, MlpMatrix matrix);
  const ops::MlpWeight& weight() const { return weight_; }

 private:
  ops::MlpWeight weight_;
  std::vector<io::SafetensorsFile> files_;  // mapped: the weight points into them
};

}  // namespace neuronmm::compress
