#pragma once
// The dense weights of an MLP as fp64 matrices, from which the functions of this folder make
// smaller ones. H hidden_size, I intermediate_size.

#include "base/result.h"
#include "compress/linear_algebra/linear_algebra.h"
#include "ops/weights.h"

namespace neuronmm::compress {

// The matrices, transposed as checkpoints hold them.
struct DenseMlp {
  DoubleMatrix gate_t, up_t;  // [I, H]
  DoubleMatrix down_t;        // [H, I]

  // Converts the weights. Fails if a weight is NaN or infinite.
  static Result<DenseMlp> read(const ops::MlpWeight& mlp);
};

}  // namespace neuronmm::compress
