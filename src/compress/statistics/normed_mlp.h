#pragma once
// Runs the second half of a decoder layer (a norm, then the MLP) with any weights in its MLP. The
// fit of down (neurons_visit.h) and the measurements in compress/sizes use it.

#include <memory>

#include "base/tensor.h"
#include "compress/linear_algebra/linear_algebra.h"
#include "io/model_config.h"
#include "model/transformer.h"
#include "ops/backend.h"

namespace neuronmm::compress {

// Subtracts the bias of a linear layer from its outputs `y`, if it has one. The weights of a layer
// are fitted to what they alone compute.
void remove_bias(const ops::LinearWeight& linear, MutableMatrixView y);

// An MLP with the norms around it. `backend` and what `mlp` points to must outlive the object.
// `residual` [M, H] has one token per row.
class NormedMlp {
 public:
  // The norms around the MLP are those of `layer`, whatever the weights of `mlp` are.
  NormedMlp(const io::ModelConfig& config, const model::LayerWeights& layer,
            const ops::MlpWeight& mlp, const ops::Backend& backend);
  // Returns what the MLP reads.
  Matrix input(ConstMatrixView residual) const;
  // Returns what the MLP itself returns, before a norm of its output.
  Matrix output(ConstMatrixView residual) const;
  // Adds what the MLP adds to the residual stream.
  void add_to(MutableMatrixView residual) const;
  // Turns what output() returns into what is added to the residual stream.
  void finish(MutableMatrixView output) const { around_.finish(backend_, output); }

 private:
  model::SubLayer around_;
  const ops::Backend& backend_;
  std::unique_ptr<ops::Mlp> mlp_;
};

}  // namespace neuronmm::compress
