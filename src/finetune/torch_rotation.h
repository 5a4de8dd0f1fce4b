#pragma once
// Rotary embedding with its gradient, in one pass that also puts heads before positions. Includes
// torch: internal to this folder.

#include <ATen/ATen.h>

namespace neuronmm::finetune {

// [T, head_dim / 2] each, in the dtype of values.
struct Rotation {
  at::Tensor cosine, sine;
};

// x [B, T, heads, D] -> [B, heads, T, D] in the dtype of the rotation: scale · x with element j
// turned together with element j + D / 2.
at::Tensor rotate_heads(const at::Tensor& x, const Rotation& rotation, double scale);

}  // namespace neuronmm::finetune
