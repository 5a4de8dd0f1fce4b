#pragma once
// The gate of an MLP with its gradient, in one pass, for TorchTransformer. This header includes
// torch and is internal to this folder.

#include <ATen/ATen.h>

#include "base/activation.h"

namespace neuronmm::finetune {

// Returns silu(gate) · up. Arguments and result have one shape and dtype. The computation is in
// fp32, or in fp64 for fp64 tensors.
at::Tensor silu_times(const at::Tensor& gate, const at::Tensor& up);
// Returns activate(gate) · up (base/activation.h).
at::Tensor gate_times(Activation activation, const at::Tensor& gate, const at::Tensor& up);

}  // namespace neuronmm::finetune
