#pragma once
// Causal attention with its gradient, for TorchTransformer. This header includes torch and is
// internal to this folder.

#include <ATen/ATen.h>

namespace neuronmm::finetune {

// Returns attention of shape [B, T, kv_heads · group · D] in the dtype of products.
// - q [B, kv_heads, group, T, D], scaled, and k [B, kv_heads, T, D] have the dtype of values.
// - v has the shape of k and the dtype of products.
//
// Query i sees the keys of positions 0 ... i, or with a window > 0 those of (i - window, i].
//
// With a score_cap c > 0 the scores become c · tanh(score / c) before the mask. Such scores are
// computed as one matrix [T, T] per head.
//
// Scores are not rounded to the dtype of products: an error of 2^-9 of a score of 20 would change a
// weight by 4 %. Weights and all gradients are rounded to that dtype before they are multiplied.
at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            int64_t window, double score_cap = 0.0);

}  // namespace neuronmm::finetune
