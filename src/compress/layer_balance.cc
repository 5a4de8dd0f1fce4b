#include "compress/layer_balance.h"

#include <cmath>

#include "compress/mlp_metric.h"
#include "compress/mlp_statistics.h"

namespace neuronmm::compress {

Result<std::vector<double>> balance_factors(const std::filesystem::path& metric,
                                            const std::filesystem::path& statistics,
                                            const io::ModelConfig& config) {
  std::vector<double> factors;
  double logarithms = 0.0, count = 0.0;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    NMM_ASSIGN(const double trace, read_metric_trace(metric, layer, config));
    NMM_ASSIGN(const double squares, read_residual(statistics, layer));
    const double worth = trace * squares;
    factors.push_back(worth > 0.0 ? 1.0 / std::sqrt(worth) : 0.0);
    if (worth <= 0.0) continue;
    logarithms += std::log(factors.back());
    ++count;
  }
  const double mean = count > 0.0 ? std::exp(logarithms / count) : 1.0;
  for (double& factor : factors) factor = factor > 0.0 ? factor / mean : 1.0;
  return factors;
}

}  // namespace neuronmm::compress
