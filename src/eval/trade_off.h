#pragma once
// The accuracy that a compression costs, and gamma: the accuracy lost per speed gained. `neuronmm
// eval` reports the loss when it gets a reference; `neuronmm compare` reports both.

#include <optional>
#include <vector>

#include "eval/evaluation.h"
#include "eval/interval.h"

namespace neuronmm::eval {

// A comparison of two models on the same items of one task.
struct PairedAccuracy {
  Estimate accuracy_lost;  // acc of the dense model minus that of the other, paired item by item
  // The share of the items for which both choose the same answer, right or wrong.
  Estimate choice_agreement;
};
// Compares two results of one task. Both must have the same items, at least one.
PairedAccuracy paired_accuracy(const TaskResult& dense, const TaskResult& other);

// The loss of mAcc and its standard error. Both models answer the same items, so the standard error
// is that of the items' differences. It is smaller than the errors of the two accuracies suggest.
struct AccuracyLoss {
  double value = 0.0;           // mAcc of the dense model minus that of the other
  double standard_error = 0.0;  // NaN if a task has a single item
  // Returns whether the loss is within kInterval standard errors of 0. Chance alone produces such a
  // loss in 19 of 20 cases.
  bool is_noise() const;
};
// Compares two evaluations of the same tasks and items. Returns nothing if no task has an accuracy.
std::optional<AccuracyLoss> accuracy_loss(const std::vector<TaskResult>& dense,
                                          const std::vector<TaskResult>& other);

// Returns gamma = (mAcc of the dense model - mAcc) / (speed-up - 1), the accuracy lost per 100 % of
// speed gained, both as fractions; lower is better. It is the speed degradation ratio of He et al.
// (arXiv 2406.15786). Assumed: the NeuronMM paper means this ratio, which fits its published pairs
// of loss and speed-up but is not stated there. Returns nothing if there is no speed-up.
std::optional<double> accuracy_lost_per_speedup(double dense_accuracy, double accuracy,
                                                double speedup);

}  // namespace neuronmm::eval
