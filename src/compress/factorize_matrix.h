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
using Factorization =
    std::function<Result<Factors>(const DoubleMatrix& w_t, const StoredFormat& stored)>;

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

// Errors name `model`, the layer and the matrix: a weight that is not finite, LAPACK's, the disk's.
Result<MatrixReport> factorize_matrix(const ops::MlpWeight& mlp, const MatrixPlan& plan,
                                      const Factorization& factorization,
                                      const WeightFormats& weights, const StagedWork& work,
                                      const std::string& model);

// Keeps what was computed.
Result<MatrixReport> save_factors(const MatrixPlan& plan, const Factors& factors,
                                  const StoredFormat& stored, const StagedWork& work);

// An MLP of which some matrices are factors in a work folder, as they will be stored, to run before
// the model is written.
class FactoredMlp {
 public:
  FactoredMlp(const ops::MlpWeight& dense, const WeightFormats& weights)
      : weight_(dense), formats_(weights) {}
  Status use_factors(const StagedWork& work, int64_t layer, MlpMatrix matrix);
  const ops::MlpWeight& weight() const { return weight_; }

 private:
  TensorView factor(const io::SafetensorsFile& file, const char* name);

  ops::MlpWeight weight_;  // points into what follows
  const WeightFormats& formats_;
  std::vector<io::SafetensorsFile> files_;       // mapped
  std::vector<std::vector<std::byte>> rounded_;  // of few bits
};

}  // namespace neuronmm::compress
