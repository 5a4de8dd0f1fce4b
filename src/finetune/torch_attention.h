#pragma once
// Causal attention with its gradient. Includes torch: internal to this folder.

#include <ATen/ATen.h>

namespace neuronmm::finetune {

// q [B, kv_heads, group, T, D], scaled, and k [B, kv_heads, T, D] in the dtype of values, v as k in
// that of products -> [B, T, kv_heads · group · D] in that of products. Query i sees the keys of
// positions 0 ... i; with a window > 0 those of (i - window, i].
//
// Scores are not rounded to the dtype of products: an error of 2^-9 of a score of 20 would change
// a weight by 4 %. Weights and all gradients are, before they are multiplied.
at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            int64_t window);

}  // namespace neuronmm::finetune
