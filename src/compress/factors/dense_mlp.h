#pragma once
// The dense weights of an MLP as fp64 matrices, from which the functions of this folder make
// smaller ones. H hidden_size, I intermediate_size.
//
// Narrowing (narrow_layers.h), the factors of helper processes (factor_jobs.h) and the predicted
// losses (sizes/predicted_loss.h) read the weights of a layer with it.

#include "base/result.h"
#include "compress/linear_algebra/linear_algebra.h"
#include "ops/weights.h"

namespace neuronmm::compress {

// The matrices, transposed as checkpoints hold them.
struct DenseMlp {
  DoubleMatrix gate_t, up_t;  // [I, H]
  DoubleMatrix down_t;        // [H, I]
  // The biases as one row each, [1, I] and [1, H]; empty if the MLP has none.
  DoubleMatrix gate_bias = {}, up_bias = {}, down_bias = {};

  // Converts the weights. Fails if a matrix holds NaN or infinity; biases are not looked at. The
  // message names the matrix, but neither the layer nor the model, which the caller must add.
  static Result<DenseMlp> read(const ops::MlpWeight& mlp);
};

}  // namespace neuronmm::compress
