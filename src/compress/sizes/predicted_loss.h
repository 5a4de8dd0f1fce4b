#pragma once
// Predicts what narrowing one MLP costs the model, at every size, in nats per token. The prediction
// is the second-order change of the model's predictions by the metric of mlp_metric.h.
// shape_search.h chooses sizes by it. On SmolLM2 predictions are 2 to 4.5 times too small
// (measured, docs/measurements/quality.md). They rank the sizes of one form correctly, which is
// what they are used for.

#include <vector>

#include "base/result.h"
#include "compress/factors/dense_mlp.h"
#include "compress/statistics/mlp_metric.h"
#include "compress/statistics/mlp_statistics.h"

namespace neuronmm::compress {

// Losses by size: entry k is the loss if k channels or neurons are kept. The last entry is that of
// the whole MLP and is 0.
struct PredictedLosses {
  std::vector<double> gate, up;  // [H + 1]: input pivots of each one alone
  std::vector<double> input;     // [H + 1]: input pivots that both share
  std::vector<double> output;    // [H + 1]: output pivots of down
  std::vector<double> neurons;   // [I + 1]: neurons
  std::vector<int32_t> order;    // [I]: k neurons are the first k of these (neuron_order.h)
};
// The curves of losses, for code that treats them alike.
inline constexpr std::vector<double> PredictedLosses::*kPredictedCurves[] = {
    &PredictedLosses::gate, &PredictedLosses::up, &PredictedLosses::input, &PredictedLosses::output,
    &PredictedLosses::neurons};

// The losses of an MLP that only loses neurons, at every number of them, and their order.
struct NeuronLosses {
  std::vector<double> losses;  // as PredictedLosses::neurons
  std::vector<int32_t> order;
};
// Predicts them. `neurons` [I, I] is the Gram matrix of the neurons, and `metric_root` [H, H] is a
// root of the output's metric. Fails if a decomposition fails.
Result<NeuronLosses> predict_neurons(const DoubleMatrix& down_t, const DoubleMatrix& neurons,
                                     const DoubleMatrix& metric_root);

// Predicts the losses of one layer. Fails if a decomposition fails, for example because of NaN.
Result<PredictedLosses> predict_losses(const DenseMlp& mlp, const MlpStatistics& statistics,
                                       const MlpMetric& metric);

}  // namespace neuronmm::compress
