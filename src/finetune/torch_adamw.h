#pragma once
// AdamW in one pass over each tensor, and the sum of squares for its gradient norm. TrainableModel
// uses them. This header includes torch and is internal to this folder.

#include <vector>

#include <ATen/ATen.h>

namespace neuronmm::finetune {

// The constants of one step (TrainableModel::update computes them).
struct AdamStep {
  double beta1, beta2, epsilon;
  double gradient_scale = 1.0;
  double rate = 0.0;  // the learning rate, corrected for a first moment that begins at zero
  double root_correction = 1.0;  // divides the root of the second moment
};

// The value, AdamW's two moments and the gradient of each parameter. The four tensors of a
// parameter are contiguous and have one shape and dtype, fp32 or fp64. All parameters are on one
// device.
struct AdamTensors {
  std::vector<at::Tensor> values, m, v, gradients;
};
// Makes one step of AdamW, which changes the values and both moments.
void adam_update(const AdamTensors& tensors, const AdamStep& step);
// Returns the sum of the squares of all elements, in fp64. The result is the same for any number of
// threads.
double sum_of_squares(const std::vector<at::Tensor>& tensors);

}  // namespace neuronmm::finetune
