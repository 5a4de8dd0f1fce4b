#pragma once
// What a compression costs and what it buys, in one number.

#include <optional>

namespace neuronmm::eval {

// gamma = (mAcc of the dense model - mAcc) / (speed-up - 1): accuracy lost per 100 % of speed
// gained, both as fractions; lower is better. The speed degradation ratio of He et al. (arXiv
// 2406.15786). That the NeuronMM paper means this is an inference from its published pairs of loss
// and speed-up, not a statement of it. Nothing where there is no speed-up.
std::optional<double> gamma(double dense_accuracy, double accuracy, double speedup);

}  // namespace neuronmm::eval
