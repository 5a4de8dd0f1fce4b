#pragma once
// Rounding in torch: what inference with weights of 8, 6 or 4 bits computes with. Includes torch:
// internal to this folder.

#include <ATen/ATen.h>

#include "finetune/kept_grid.h"

namespace neuronmm::finetune {

// A weight [rows, columns] as the folder will hold it.
ops::QuantizedWeight stored_weight(const at::Tensor& weight, const KeptGrid& grid);
// As it will be read back from there, in its own dtype; no gradient.
at::Tensor rounded_weight(const at::Tensor& weight, const KeptGrid& grid);

// Rows [.., columns] as the kernels of src/cpu round them beside such weights: each group of 128
// columns to multiples of max |x| / 127. The gradient passes as if nothing had been rounded (the
// straight-through estimator, arXiv 1308.3432): rounding itself has none.
at::Tensor rounded_activations(const at::Tensor& x);

}  // namespace neuronmm::finetune
