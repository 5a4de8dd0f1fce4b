#pragma once
// What an error in the middle of the model is worth at its end: the cost of an error e of an MLP's
// output is eᵀ·out·e / 2 nats per token, that of an error of gate's output i (before silu) gate[i]
// times its square / 2, and of up's likewise.
//
// From one backward pass (two-sided): the Fisher information, mean over tokens of the gradient's
// square, labels drawn from the model itself. Without one (whitened): every element of the residual
// stream counts the same, in units of its mean square after the layer, and what reaches it from
// gate and up follows from the MLP alone.

#include <filesystem>
#include <optional>
#include <vector>

#include "compress/linear_algebra/linear_algebra.h"
#include "compress/statistics/mlp_statistics.h"
#include "io/model_config.h"

namespace neuronmm::compress {

struct MlpMetric {
  DoubleMatrix out;              // [H, H]
  std::vector<double> gate, up;  // [I]
};

// `down_t` [H, I].
MlpMetric local_metric(const MlpStatistics& statistics, const DoubleMatrix& down_t);

// Of a file as finetune/output_metric.h writes it: tensors model.layers.N.mlp.metric_out F64 [H,
// H], .metric_gate and .metric_up F64 [I]; `out` gets a hundredth of its mean diagonal added to the
// diagonal, since a few sequences leave directions without a gradient. The checksum of the file is
// for the caller to compare, once for all layers.
Result<MlpMetric> read_metric(const std::filesystem::path& file, int64_t layer,
                              const io::ModelConfig& config);

}  // namespace neuronmm::compress
