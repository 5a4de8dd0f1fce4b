#pragma once
// Accuracies from log-likelihoods, by lm-evaluation-harness's rules. The answer is the choice with
// the largest value, or the first of several that are equal:
//   acc       the value is the log-likelihood
//   acc_norm  the value is the log-likelihood divided by the choice's length in Unicode code points
//             (without the space before it)
// The standard error of a mean is the sample standard deviation (n - 1) over sqrt(n).

#include <optional>
#include <vector>

#include "eval/log_likelihood.h"
#include "eval/task_item.h"

namespace neuronmm::eval {

// A share of correct answers.
struct Accuracy {
  double value = 0.0;
  double standard_error = 0.0;  // NaN for a single item
};
// Returns the share of true values. There must be at least one value.
Accuracy accuracy(const std::vector<bool>& correct);

// Returns the answer: the first of the largest values.
int64_t best_choice(const std::vector<double>& log_likelihoods);

// Whether one item is answered correctly, by both rules.
struct ItemScore {
  bool acc = false;
  std::optional<bool> acc_norm;  // empty for WinoGrande, which has no acc_norm
};
// Scores one item. There must be one likelihood per choice.
ItemScore score_item(const TaskItem& item, const std::vector<double>& log_likelihoods);

// The accuracies of a task.
struct MultipleChoiceScore {
  Accuracy acc;
  std::optional<Accuracy> acc_norm;
};
// Scores all items of a task. There must be one list of likelihoods per item, and at least one
// item.
MultipleChoiceScore score_choices(const std::vector<TaskItem>& items,
                                  const std::vector<std::vector<double>>& log_likelihoods);

}  // namespace neuronmm::eval
