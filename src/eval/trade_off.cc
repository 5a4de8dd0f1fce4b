#include "eval/trade_off.h"

#include <cmath>

namespace neuronmm::eval {
namespace {

bool is_right(const TaskResult& result, size_t item) {
  return best_choice(result.likelihoods.items[item]) == result.items[item].gold;
}

// Returns the mean over items, with the sample standard deviation (n - 1) over sqrt(n) as its
// error. Each item is a window of one token.
Estimate mean_over_items(const std::vector<double>& values) {
  std::vector<WindowSum> items;
  for (const double value : values) items.push_back({value, 1});
  return mean_over_windows(items);
}

}  // namespace

PairedAccuracy paired_accuracy(const TaskResult& dense, const TaskResult& other) {
  NMM_CHECK(dense.items.size() == other.items.size());
  std::vector<double> lost, same;
  for (size_t i = 0; i < dense.items.size(); ++i) {
    const int64_t a = best_choice(dense.likelihoods.items[i]),
                  b = best_choice(other.likelihoods.items[i]);
    lost.push_back(int{is_right(dense, i)} - int{is_right(other, i)});
    same.push_back(a == b ? 1.0 : 0.0);
  }
  return {mean_over_items(lost), mean_over_items(same)};
}

bool AccuracyLoss::is_noise() const { return !(std::abs(value) > kInterval * standard_error); }

std::optional<AccuracyLoss> accuracy_loss(const std::vector<TaskResult>& dense,
                                          const std::vector<TaskResult>& other) {
  NMM_CHECK(dense.size() == other.size());
  AccuracyLoss loss;
  double squares = 0.0, tasks = 0.0;
  for (size_t i = 0; i < dense.size(); ++i) {
    if (!dense[i].score) continue;
    const Estimate lost = paired_accuracy(dense[i], other[i]).accuracy_lost;
    loss.value += lost.value;
    squares += lost.standard_error * lost.standard_error;
    tasks += 1.0;
  }
  if (tasks == 0.0) return {};
  loss.value /= tasks;
  loss.standard_error = std::sqrt(squares) / tasks;
  return loss;
}

std::optional<double> accuracy_lost_per_speedup(double dense_accuracy, double accuracy,
                                                double speedup) {
  if (!(speedup > 1.0)) return {};
  return (dense_accuracy - accuracy) / (speedup - 1.0);
}

}  // namespace neuronmm::eval
