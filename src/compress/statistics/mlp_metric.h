#pragma once
// The metric that says how much an error in the middle of the model costs at its end, in nats per
// token:
//
// * An error e of an MLP's output costs eᵀ·out·e / 2.
// * An error e of gate's output i, before the activation, costs gate[i]·e² / 2, and one of up's
//   output i costs up[i]·e² / 2.
//
// Method "two-sided" takes the metric from one backward pass: it is the Fisher information, the
// mean over tokens of the gradient's square, with labels drawn from the model itself. Method
// "whitened" has no backward pass and uses local_metric().
//
// Predicted losses (sizes/predicted_loss.h) and pivots (factors/pivoting.h) are computed with the
// metric.

#include <filesystem>
#include <vector>

#include "compress/linear_algebra/linear_algebra.h"
#include "compress/statistics/mlp_statistics.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// The metric of one layer. H hidden_size, I intermediate_size.
struct MlpMetric {
  DoubleMatrix out;              // [H, H]
  std::vector<double> gate, up;  // [I]
};

// Returns a metric that needs no backward pass. Every element of the residual stream counts the
// same, in units of its mean square after the layer. The values of gate and up follow from the
// weights and statistics of the MLP alone. `down_t` is [H, I].
MlpMetric local_metric(const MlpStatistics& statistics, const DoubleMatrix& down_t);

// Reads the metric of a layer from a file of output_metric.h. A hundredth of the mean diagonal is
// added to the diagonal of `out`, because a few sequences leave directions without a gradient.
// Fails if a tensor is missing, has another shape, or holds NaN or infinity. The checksum of the
// file is not compared; the caller does that once for all layers.
Result<MlpMetric> read_metric(const std::filesystem::path& file, int64_t layer,
                              const io::ModelConfig& config);

}  // namespace neuronmm::compress
