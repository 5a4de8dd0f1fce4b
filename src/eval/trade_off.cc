#include "eval/trade_off.h"

namespace neuronmm::eval {

std::optional<double> gamma(double dense_accuracy, double accuracy, double speedup) {
  if (!(speedup > 1.0)) return {};
  return (dense_accuracy - accuracy) / (speedup - 1.0);
}

}  // namespace neuronmm::eval
