#pragma once
// AdamW in one pass over a tensor. Includes torch: internal to this folder.

#include <ATen/ATen.h>

namespace neuronmm::finetune {

// One step's numbers: see TrainableModel::update.
struct AdamStep {
  double beta1, beta2, epsilon;
  double gradient_scale = 1.0;
  double rate = 0.0;             // learning rate, corrected for the first moment's begin at zero
  double root_correction = 1.0;  // what the root of the second moment is divided by
};

// All contiguous and of one shape and dtype, fp32 or fp64; all but the gradient change.
void adam_update(at::Tensor& value, at::Tensor& m, at::Tensor& v, const at::Tensor& gradient,
                 const AdamStep& step);
// The sum of the squares, in fp64; the same for any number of threads.
double sum_of_squares(const at::Tensor& tensor);

}  // namespace neuronmm::finetune
