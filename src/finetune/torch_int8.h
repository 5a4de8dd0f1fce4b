#pragma once
// Rounding to int8 in torch: what inference with int8 weights computes with. Includes torch:
// internal to this folder.

#include <ATen/ATen.h>

namespace neuronmm::finetune {

// A weight [rows, columns] as it will be read back from an int8 folder (ops/quantize.h), in its own
// dtype; no gradient.
at::Tensor int8_weight(const at::Tensor& weight);

// Rows [.., columns] as the int8 kernels of src/cpu round them: each group of 128 columns to
// multiples of max |x| / 127. The gradient passes as if nothing had been rounded (the
// straight-through estimator, arXiv 1308.3432): rounding itself has none.
at::Tensor int8_activations(const at::Tensor& x);

}  // namespace neuronmm::finetune
