#pragma once
// Losses of logits and their gradients, a row at a time. Includes torch: internal to this folder.

#include <ATen/ATen.h>

namespace neuronmm::finetune {

// Summed over the rows of [N, V], in nats: the Kullback-Leibler divergence from the distribution of
// `wanted` logits, or where those are undefined -log p of the `targets` [N]. If `with_gradient`,
// the logits become the loss's gradient with respect to them: their probabilities less the wanted
// ones.
double loss_of_logits(at::Tensor& logits, const at::Tensor& wanted, const at::Tensor& targets,
                      bool with_gradient);

}  // namespace neuronmm::finetune
