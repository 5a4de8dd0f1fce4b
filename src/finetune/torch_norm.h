#pragma once
// RMSNorm with its gradient, a row at a time. Includes torch: internal to this folder.

#include <ATen/ATen.h>

namespace neuronmm::finetune {

struct SumAndNorm {
  at::Tensor sum, norm;
};

// x [..., H] / sqrt(mean square of its row + eps) · gain, rounded to `type`. The gain is not
// trained: it has no gradient.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps, at::ScalarType type);
// x + change, in the dtype of x, and its norm in that of `change`.
SumAndNorm add_and_norm(const at::Tensor& x, const at::Tensor& change, const at::Tensor& gain,
                        double eps);

}  // namespace neuronmm::finetune
