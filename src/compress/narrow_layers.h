#pragma once
// Narrows every MLP of a model, each by the statistics of its layer alone. A narrowed layer waits
// in a checked file until the model is written, so that an interrupted run goes on.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/result.h"
#include "compress/gathered_statistics.h"
#include "compress/inputs.h"
#include "compress/mlp_matrix.h"
#include "compress/narrow_mlp.h"

namespace neuronmm::compress {

// What of one layer is known before it is narrowed.
struct KnownMlp {
  DenseMlp mlp;
  MlpStatistics statistics;
  MlpMetric metric;
};
// Without a metric in `files` the local one is taken (mlp_metric.h).
Result<KnownMlp> know_mlp(const CompressionInputs& inputs, const StatisticsFiles& files,
                          int64_t layer);

struct NarrowRequest {
  StatisticsFiles files;
  std::vector<io::MlpShape> shapes;  // per layer
  WeightFormats weights;             // as the model will store them
  bool as_factors = false;           // with_factors() makes of each MLP what is stored
  int64_t padded = 0;  // the neurons that every layer gets, zeros included; 0: its own
  // The order in which the neurons of a layer stay (predicted_loss.h).
  std::function<Result<std::vector<int32_t>>(int64_t layer)> order;
};

// Leaves narrowed_path(out, layer) for every layer, with the tensors of its MLP by their names in
// model/mlp_reader.h, and skips the files that are there. Several layers run at once. Returns the
// largest entry of a layer's maps between pivots and others, per layer.
Result<std::vector<double>> narrow_layers(const CompressionInputs& inputs,
                                          const NarrowRequest& request,
                                          const std::filesystem::path& work,
                                          const std::filesystem::path& out);
// Does the same layer by layer, with down fitted on the calibration text (down_fit.h).
Result<std::vector<double>> narrow_layers_on_text(const CompressionInputs& inputs,
                                                  const NarrowRequest& request,
                                                  const std::filesystem::path& out);

std::filesystem::path narrowed_path(const std::filesystem::path& folder, int64_t layer);
// The MLPs in these files, as the model will store them.
WithMlp narrowed_mlps(const CompressionInputs& inputs, const WeightFormats& weights,
                      const std::filesystem::path& folder);

}  // namespace neuronmm::compress
