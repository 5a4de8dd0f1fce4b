#pragma once
// Runs the second half of a decoder layer (a norm, then the MLP) with any weights in its MLP. The
// fit of down (neurons_visit.h) and the measurements in compress/sizes use it.

#include <memory>
#include <vector>

#include "base/tensor.h"
#include "compress/linear_algebra/linear_algebra.h"
#include "io/model_config.h"
#include "model/transformer.h"
#include "ops/backend.h"

namespace neuronmm::compress {

// `backend` and what `mlp` points to must outlive the object. `residual` [M, H] has one token per
// row.
class NormedMlp {
 public:
  NormedMlp(const io::ModelConfig& config, const TensorView& norm, const ops::MlpWeight& mlp,
            const ops::Backend& backend);
  // Returns what the MLP reads.
  Matrix input(ConstMatrixView residual) const;
  // Returns what the MLP adds to the residual.
  Matrix output(ConstMatrixView residual) const;

 private:
  float eps_;
  std::vector<float> norm_;
  const ops::Backend& backend_;
  std::unique_ptr<ops::Mlp> mlp_;
};

}  // namespace neuronmm::compress
