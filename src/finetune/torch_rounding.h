#pragma once
// Rounds weights and activations in torch exactly as inference with weights of 8, 6 or 4 bits
// rounds them. This header includes torch and is internal to this folder.

#include <ATen/ATen.h>

#include "finetune/kept_grid.h"

namespace neuronmm::finetune {

// Returns a weight [rows, columns] as the folder will hold it.
ops::QuantizedWeight stored_weight(const at::Tensor& weight, const KeptGrid& grid);
// Returns the weight as it will be read back from the folder, in the weight's own dtype and without
// a gradient.
at::Tensor rounded_weight(const at::Tensor& weight, const KeptGrid& grid);

// Rounds rows [.., columns] of activations as the kernels of src/cpu round them when they multiply
// such weights. Each group of 128 columns is rounded to multiples of max |x| / 127. The gradient
// passes as if nothing had been rounded (the straight-through estimator, arXiv 1308.3432), because
// rounding itself has none.
at::Tensor rounded_activations(const at::Tensor& x);

}  // namespace neuronmm::finetune
