#pragma once
// What narrowing one MLP is predicted to cost the model, at every size: nats per token, as the
// second-order change of the predictions that mlp_metric.h gives. On SmolLM2 it is 2.6 to 4.5 times
// too small and ranks forms and sizes rightly, which is all that it is used for.

#include <vector>

#include "base/result.h"
#include "compress/mlp_metric.h"
#include "compress/mlp_statistics.h"
#include "compress/pivoting.h"
#include "ops/weights.h"

namespace neuronmm::compress {

// An MLP's dense weights in fp64, as checkpoints hold them.
struct DenseMlp {
  DoubleMatrix gate_t, up_t;  // [I, H]
  DoubleMatrix down_t;        // [H, I]

  static Result<DenseMlp> read(const ops::MlpWeight& mlp);  // refuses NaN and infinity
};

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

// down_t for the first k neurons of `order`, which make up for the others as well as they can
// (Nyström; MoDeGPT, arXiv 2408.09632, section 3.2): W·C[:, k]·C[k, k]⁻¹, C the Gram matrix of the
// neurons. [H, k].
Result<DoubleMatrix> down_of_fewer_neurons(const DoubleMatrix& down_t, const DoubleMatrix& neurons,
                                           const std::vector<int32_t>& kept);

}  // namespace neuronmm::compress
