#pragma once
// Losses of logits and their gradients, computed row by row. TrainableModel's loss uses them. This
// header includes torch and is internal to this folder.

#include <ATen/ATen.h>

namespace neuronmm::finetune {

// Returns the loss summed over the rows of logits [N, V], in nats. The loss is the Kullback-Leibler
// divergence from the distribution of `teacher_logits` to that of `logits`. Where `teacher_logits`
// is undefined, the loss is -log p of the `targets` [N]. With `with_gradient`, the logits are
// replaced by the loss's gradient with respect to them: their probabilities minus the teacher's.
double loss_of_logits(at::Tensor& logits, const at::Tensor& teacher_logits,
                      const at::Tensor& targets, bool with_gradient);

}  // namespace neuronmm::finetune
