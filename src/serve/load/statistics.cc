#include "serve/load/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace neuronmm::load {

double percentile(std::span<const double> sorted, double percent) {
  const double place = percent / 100.0 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

Summary summarize(std::vector<double> values) {
  Summary summary;
  if (values.empty()) return summary;
  std::ranges::sort(values);
  const auto count = static_cast<double>(values.size());
  summary.count = static_cast<int64_t>(values.size());
  summary.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0.0;
  for (const double value : values) squares += (value - summary.mean) * (value - summary.mean);
  summary.deviation = std::sqrt(squares / count);
  summary.median = percentile(values, 50);
  summary.p90 = percentile(values, 90);
  summary.p99 = percentile(values, 99);
  return summary;
}

}  // namespace neuronmm::load
