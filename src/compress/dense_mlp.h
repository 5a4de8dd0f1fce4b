#pragma once
// The dense weights of an MLP in fp64. H hidden_size, I intermediate_size.

#include "base/result.h"
#include "compress/linear_algebra.h"
#include "ops/weights.h"

namespace neuronmm::compress {

// The matrices as checkpoints hold them.
struct DenseMlp {
  DoubleMatrix gate_t, up_t;  // [I, H]
  DoubleMatrix down_t;        // [H, I]

  static Result<DenseMlp> read(const ops::MlpWeight& mlp);  // refuses NaN and infinity
};

}  // namespace neuronmm::compress
