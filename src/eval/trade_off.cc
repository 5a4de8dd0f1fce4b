#include "eval/trade_off.h"

#include <cmath>

namespace neuronmm::eval {
namespace {

bool is_right(const TaskResult& result, size_t item) {
  return score_item(result.items[item], result.likelihoods.items[item]).acc;
}

// The squared standard error of the mean of dense - other over a task's items.
double squared_error(const TaskResult& dense, const TaskResult& other) {
  double sum = 0.0, squares = 0.0;
  for (size_t i = 0; i < dense.items.size(); ++i) {
    const double difference = int{is_right(dense, i)} - int{is_right(other, i)};
    sum += difference;
    squares += difference * difference;
  }
  const auto n = static_cast<double>(dense.items.size());
  return (squares - sum * sum / n) / (n - 1.0) / n;
}

}  // namespace

bool AccuracyLoss::is_noise() const { return !(std::abs(value) > kInterval * standard_error); }

std::optional<AccuracyLoss> accuracy_loss(const std::vector<TaskResult>& dense,
                                          const std::vector<TaskResult>& other) {
  NMM_CHECK(dense.size() == other.size());
  AccuracyLoss loss;
  double squares = 0.0, tasks = 0.0;
  for (size_t i = 0; i < dense.size(); ++i) {
    if (!dense[i].score) continue;
    NMM_CHECK(dense[i].items.size() == other[i].items.size());
    loss.value += dense[i].score->acc.value - other[i].score->acc.value;
    squares += squared_error(dense[i], other[i]);
    tasks += 1.0;
  }
  if (tasks == 0.0) return {};
  loss.value /= tasks;
  loss.standard_error = std::sqrt(squares) / tasks;
  return loss;
}

// Accuracy lost per unit of speed-up gained. Without a speed-up there is nothing to weigh against.
std::optional<double> gamma(double dense_accuracy, double accuracy, double speedup) {
  if (!(speedup > 1.0)) return {};
  return (dense_accuracy - accuracy) / (speedup - 1.0);
}

}  // namespace neuronmm::eval
