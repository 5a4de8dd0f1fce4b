#pragma once
// Rotary embedding with its gradient, in one pass that also moves the axis of heads before that of
// positions. This header includes torch and is internal to this folder.

#include <ATen/ATen.h>

namespace neuronmm::finetune {

// The cosines and sines of all angles. Both are [T, head_dim / 2] in the dtype of values.
struct Rotation {
  at::Tensor cosine, sine;
};

// Returns scale · x, rotated: element j is turned together with element j + D / 2. x is [B, T,
// heads, D], and the result is [B, heads, T, D] in the dtype of the rotation.
at::Tensor rotate_heads(const at::Tensor& x, const Rotation& rotation, double scale);

}  // namespace neuronmm::finetune
