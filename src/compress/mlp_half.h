#pragma once
// The second half of a decoder layer, with any weights in its MLP: a norm, then the MLP.

#include <memory>
#include <vector>

#include "base/tensor.h"
#include "compress/linear_algebra.h"
#include "io/model_config.h"
#include "model/transformer.h"
#include "ops/backend.h"

namespace neuronmm::compress {

// `backend` and what `mlp` points to must outlive it. Rows are tokens; residual [M, H].
class MlpHalf {
 public:
  MlpHalf(const io::ModelConfig& config, const TensorView& norm, const ops::MlpWeight& mlp,
          const ops::Backend& backend);
  Matrix input(ConstMatrixView residual) const;   // what the MLP reads
  Matrix output(ConstMatrixView residual) const;  // what it adds to the residual

 private:
  float eps_;
  std::vector<float> norm_;
  const ops::Backend& backend_;
  std::unique_ptr<ops::Mlp> mlp_;
};

}  // namespace neuronmm::compress
