#include "eval/trade_off.h"

namespace neuronmm::eval {

// Accuracy lost per unit of speed-up gained. Without a speed-up there is nothing to weigh against.
std::optional<double> gamma(double dense_accuracy, double accuracy, double speedup) {
  if (!(speedup > 1.0)) return {};
  return (dense_accuracy - accuracy) / (speedup - 1.0);
}

}  // namespace neuronmm::eval
