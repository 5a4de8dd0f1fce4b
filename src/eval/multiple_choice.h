#pragma once
// Accuracies from log-likelihoods, by lm-evaluation-harness's rules. The choice with the largest
// value is the answer, the first of them where they are equal:
//   acc       the log-likelihood
//   acc_norm  the log-likelihood over the choice's length in Unicode code points (without the space
//             before it)
// The standard error of a mean is sample standard deviation (n - 1) over sqrt(n).

#include <optional>
#include <vector>

#include "eval/log_likelihood.h"
#include "eval/task_item.h"

namespace neuronmm::eval {

struct Accuracy {
  double value = 0.0;
  double standard_error = 0.0;  // NaN for a single item
};
Accuracy accuracy(const std::vector<bool>& correct);

// The answer: the first of the largest.
int64_t chosen(const std::vector<double>& log_likelihoods);

struct ItemScore {
  bool acc = false;
  std::optional<bool> acc_norm;  // WinoGrande has none
};
// As many likelihoods as choices.
ItemScore score_item(const TaskItem& item, const std::vector<double>& log_likelihoods);

struct MultipleChoiceScore {
  Accuracy acc;
  std::optional<Accuracy> acc_norm;
};
// As many likelihoods as items; not empty.
MultipleChoiceScore score_choices(const std::vector<TaskItem>& items,
                                  const std::vector<std::vector<double>>& log_likelihoods);

}  // namespace neuronmm::eval
