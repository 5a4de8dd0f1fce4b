#pragma once
// The fused operations of this folder, written with torch's own operations. Devices without fused
// loops (GPUs) use them, and tests compare the fused operations with them. This header includes
// torch and is internal to this folder.

#include <ATen/ATen.h>

#include "finetune/torch_adamw.h"
#include "finetune/torch_rotation.h"

namespace neuronmm::finetune {

at::Tensor plain_rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps);
at::Tensor plain_silu_times(const at::Tensor& gate, const at::Tensor& up);
at::Tensor plain_gelu_times(const at::Tensor& gate, const at::Tensor& up);
at::Tensor plain_rotate_heads(const at::Tensor& x, const Rotation& rotation, double scale);
at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           int64_t window, double score_cap = 0.0);
double plain_loss_of_logits(at::Tensor& logits, const at::Tensor& teacher_logits,
                            const at::Tensor& targets, bool with_gradient);
// The functions use torch's operations on lists and wait for a single number, because a GPU takes
// longer to launch work on a small tensor than to compute it.
void plain_adam_update(const AdamTensors& tensors, const AdamStep& step);
double plain_sum_of_squares(const std::vector<at::Tensor>& tensors);

}  // namespace neuronmm::finetune
