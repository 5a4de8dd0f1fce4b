#pragma once
// What narrowing one MLP is predicted to cost the model, at every size: nats per token, as the
// second-order change of the predictions that mlp_metric.h gives. On SmolLM2 it is 2.6 to 4.5 times
// too small and ranks forms and sizes rightly, which is all that it is used for.

#include <vector>

#include "base/result.h"
#include "compress/dense_mlp.h"
#include "compress/mlp_metric.h"
#include "compress/mlp_statistics.h"

namespace neuronmm::compress {

// Index = the size that is kept; the last one is the whole and costs nothing.
struct PredictedLosses {
  std::vector<double> gate, up;  // [H + 1], input pivots of each alone
  std::vector<double> input;     // [H + 1], input pivots that both share
  std::vector<double> output;    // [H + 1], output pivots of down
  std::vector<double> neurons;   // [I + 1]
  std::vector<int32_t> order;    // [I], neuron_order.h: k neurons are the first k
};

Result<PredictedLosses> predict_losses(const DenseMlp& mlp, const MlpStatistics& statistics,
                                       const MlpMetric& metric);

}  // namespace neuronmm::compress
