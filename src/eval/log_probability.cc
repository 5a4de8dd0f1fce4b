#include "eval/log_probability.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace neuronmm::eval {

double log_probability(std::span<const float> logits, text::TokenId target) {
  float largest = -std::numeric_limits<float>::infinity();
  for (const float logit : logits) largest = std::max(largest, logit);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return static_cast<double>(logits[target]) - largest - std::log(sum);
}

}  // namespace neuronmm::eval
