#pragma once
// AdamW in one pass over each tensor. Includes torch: internal to this folder.

#include <vector>

#include <ATen/ATen.h>

namespace neuronmm::finetune {

// One step's numbers: see TrainableModel::update.
struct AdamStep {
  double beta1, beta2, epsilon;
  double gradient_scale = 1.0;
  double rate = 0.0;             // learning rate, corrected for the first moment's begin at zero
  double root_correction = 1.0;  // what the root of the second moment is divided by
};

// Of each parameter the value, AdamW's two moments and the gradient: contiguous, of one shape and
// dtype, fp32 or fp64; all parameters on one device. All but the gradients change.
struct AdamTensors {
  std::vector<at::Tensor> values, m, v, gradients;
};
void adam_update(const AdamTensors& tensors, const AdamStep& step);
// The sum of the squares of all elements, in fp64; the same for any number of threads.
double sum_of_squares(const std::vector<at::Tensor>& tensors);

}  // namespace neuronmm::finetune
