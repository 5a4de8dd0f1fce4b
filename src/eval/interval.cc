#include "eval/interval.h"

#include <cmath>
#include <limits>

namespace neuronmm::eval {

// The Cornish-Fisher expansion in 1 / degrees of freedom (Abramowitz and Stegun 26.7.5) has an
// error below 0.001 from five degrees of freedom on. For fewer, the table holds the quantiles.
double interval_factor(int64_t samples) {
  constexpr double kQuantiles[] = {12.7062, 4.3027, 3.1824, 2.7764};
  if (samples < 2) return std::numeric_limits<double>::quiet_NaN();
  if (samples <= 5) return kQuantiles[samples - 2];
  const double n = static_cast<double>(samples - 1), x = 1.959964, x2 = x * x;
  const double g1 = x * (x2 + 1) / 4;
  const double g2 = x * ((5 * x2 + 16) * x2 + 3) / 96;
  const double g3 = x * (((3 * x2 + 19) * x2 + 17) * x2 - 15) / 384;
  const double g4 = x * ((((79 * x2 + 776) * x2 + 1482) * x2 - 1920) * x2 - 945) / 92160;
  return x + (g1 + (g2 + (g3 + g4 / n) / n) / n) / n;
}

Estimate mean_over_windows(std::span<const WindowSum> windows) {
  Estimate mean;
  mean.samples = static_cast<int64_t>(windows.size());
  double sum = 0.0, tokens = 0.0;
  for (const WindowSum& window : windows) {
    sum += window.sum;
    tokens += static_cast<double>(window.tokens);
  }
  mean.value = sum / tokens;
  double squares = 0.0;
  for (const WindowSum& window : windows) {
    const double residual = window.sum - mean.value * static_cast<double>(window.tokens);
    squares += residual * residual;
  }
  // A single window is a case of its own, because a fused multiply-add may make its residual differ
  // from 0.
  const auto count = static_cast<double>(windows.size());
  mean.standard_error = windows.size() < 2 ? std::numeric_limits<double>::quiet_NaN()
                                           : std::sqrt(count * squares / (count - 1.0)) / tokens;
  return mean;
}

}  // namespace neuronmm::eval
