#pragma once
// RMSNorm with its gradient, row by row, for TorchTransformer. This header includes torch and is
// internal to this folder.

#include <ATen/ATen.h>

namespace neuronmm::finetune {

// A sum of hidden states and its norm, as add_and_norm returns them.
struct SumAndNorm {
  at::Tensor sum, norm;
};

// Returns x [..., H] / sqrt(mean square of its row + eps) · gain, rounded to `type`. The gain is
// not trained and gets no gradient.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps, at::ScalarType type);
// Returns x + update in the dtype of x, and the norm of that sum in the dtype of `update`.
SumAndNorm add_and_norm(const at::Tensor& x, const at::Tensor& update, const at::Tensor& gain,
                        double eps);

}  // namespace neuronmm::finetune
