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

// What the hidden states of a sequence, [M, H], were and are when a part of the model is replaced.
struct StreamPair {
  MutableMatrixView dense, compressed;
};
// The dense stream passes `layer`, the compressed one its attention only, because its MLP does not
// exist yet. With x and x̂ what the MLP reads in the two: gram += Σ x̂ x̂ᵀ, cross += Σ x x̂ᵀ.
void gather_mlp_inputs(const model::DecoderLayer& layer, const MlpHalf& half,
                       const ops::RotaryEmbedding& rotary, ops::KvCache* cache,
                       const StreamPair& streams, DoubleMatrix& gram, DoubleMatrix& cross);

// a - b.
Matrix difference(ConstMatrixView a, ConstMatrixView b);

}  // namespace neuronmm::compress
