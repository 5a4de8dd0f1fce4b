#include "eval/multiple_choice.h"

#include <algorithm>
#include <cmath>

namespace neuronmm::eval {
namespace {

// Divides by the length, so that short choices have no advantage. Lengths are in characters, not
// tokens, so that different tokenizers can be compared.
std::vector<double> per_code_point(std::vector<double> values,
                                   const std::vector<int64_t>& lengths) {
  for (size_t i = 0; i < values.size(); ++i) values[i] /= static_cast<double>(lengths[i]);
  return values;
}

}  // namespace

// Like numpy's argmax.
int64_t best_choice(const std::vector<double>& log_likelihoods) {
  return std::ranges::max_element(log_likelihoods) - log_likelihoods.begin();
}

Accuracy accuracy(const std::vector<bool>& correct) {
  const auto n = static_cast<double>(correct.size());
  const double mean = static_cast<double>(std::ranges::count(correct, true)) / n;
  // The sample variance of zeros and ones is n/(n-1) mean (1 - mean).
  return {mean, std::sqrt(mean * (1.0 - mean) / (n - 1.0))};
}

ItemScore score_item(const TaskItem& item, const std::vector<double>& log_likelihoods) {
  ItemScore score = {best_choice(log_likelihoods) == item.gold, {}};
  if (!item.choice_lengths.empty()) {
    score.acc_norm = best_choice(per_code_point(log_likelihoods, item.choice_lengths)) == item.gold;
  }
  return score;
}

MultipleChoiceScore score_choices(const std::vector<TaskItem>& items,
                                  const std::vector<std::vector<double>>& log_likelihoods) {
  NMM_CHECK(!items.empty() && items.size() == log_likelihoods.size());
  std::vector<bool> correct, correct_norm;
  for (size_t i = 0; i < items.size(); ++i) {
    const ItemScore item = score_item(items[i], log_likelihoods[i]);
    correct.push_back(item.acc);
    if (item.acc_norm) correct_norm.push_back(*item.acc_norm);
  }
  MultipleChoiceScore score = {accuracy(correct), {}};
  if (!correct_norm.empty()) score.acc_norm = accuracy(correct_norm);
  return score;
}

}  // namespace neuronmm::eval
