#pragma once
// The gate of an MLP with its gradient, in one pass. Includes torch: internal to this folder.

#include <ATen/ATen.h>

namespace neuronmm::finetune {

// silu(gate) · up, of one shape and dtype, which the result has; computed in fp32 or fp64.
at::Tensor silu_times(const at::Tensor& gate, const at::Tensor& up);

}  // namespace neuronmm::finetune
