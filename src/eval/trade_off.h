#pragma once
// What a compression costs and what it buys, in one number.

#include <optional>
#include <vector>

#include "eval/evaluation.h"
#include "eval/interval.h"

namespace neuronmm::eval {

// Two models on the same items of one task.
struct PairedAccuracy {
  Estimate lost;       // acc of the dense model less that of the other, item by item
  Estimate agreement;  // share of the items where both choose the same, right or wrong
};
PairedAccuracy paired_accuracy(const TaskResult& dense, const TaskResult& other);

// What mAcc lost, and how sure that is: both models answer the same items, so the standard error is
// that of the items' differences, which is less than the two accuracies' own errors suggest.
struct AccuracyLoss {
  double value = 0.0;           // mAcc of the dense model less that of the other
  double standard_error = 0.0;  // NaN where a task has a single item
  // Within kInterval standard errors of nothing: chance alone makes as much of it in 19 of 20
  // cases.
  bool is_noise() const;
};
// Of two evaluations of the same tasks and items; nothing where no task has an accuracy.
std::optional<AccuracyLoss> accuracy_loss(const std::vector<TaskResult>& dense,
                                          const std::vector<TaskResult>& other);

// gamma = (mAcc of the dense model - mAcc) / (speed-up - 1): accuracy lost per 100 % of speed
// gained, both as fractions; lower is better. The speed degradation ratio of He et al. (arXiv
// 2406.15786). That the NeuronMM paper means this is an inference from its published pairs of loss
// and speed-up, not a statement of it. Nothing where there is no speed-up.
std::optional<double> gamma(double dense_accuracy, double accuracy, double speedup);

}  // namespace neuronmm::eval
