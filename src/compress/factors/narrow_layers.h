#pragma once
// Narrows every MLP of a model. `compress` calls narrow_layers() for narrowing by statistics alone,
// or narrow_layers_on_text() if down is also fitted on the text. Every narrowed layer is saved in a
// checked file until the model is written, so that an interrupted run can continue.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/result.h"
#include "compress/factors/mlp_matrix.h"
#include "compress/factors/narrow_mlp.h"
#include "compress/statistics/gathered_statistics.h"
#include "compress/statistics/inputs.h"

namespace neuronmm::compress {

// The data of one layer that narrowing needs.
struct MlpData {
  DenseMlp mlp;
  MlpStatistics statistics;
  MlpMetric metric;
};
// Reads the data of a layer. If `files` has no metric, the local one is computed (mlp_metric.h).
Result<MlpData> read_mlp_data(const CompressionInputs& inputs, const StatisticsFiles& files,
                              int64_t layer);

// The sizes and formats of the narrowed MLPs.
struct NarrowRequest {
  StatisticsFiles files;
  // The sizes of each layer.
  std::vector<io::MlpShape> shapes;
  // The formats in which the model will store its weights.
  WeightFormats weights;
  // Whether the stored MLPs are those that with_factors() makes.
  bool as_factors = false;
  // If not 0, neurons of zeros fill up every layer to this number of neurons.
  int64_t padded = 0;
  // Returns the neurons of a layer in the order in which they are kept (neuron_order.h).
  std::function<Result<std::vector<int32_t>>(int64_t layer)> order;
};

// Writes narrowed_path(out, layer) for every layer and skips files that exist already. The files
// hold the tensors of the MLPs under their names in model/mlp_reader.h. Several layers run at the
// same time. Returns the largest entry of the maps between pivots and other elements for each
// layer.
Result<std::vector<double>> narrow_layers(const CompressionInputs& inputs,
                                          const NarrowRequest& request,
                                          const std::filesystem::path& work,
                                          const std::filesystem::path& out);
// Does the same layer by layer, with down fitted on the calibration text (down_fit.h).
Result<std::vector<double>> narrow_layers_on_text(const CompressionInputs& inputs,
                                                  const NarrowRequest& request,
                                                  const std::filesystem::path& out);

// Returns the file of a narrowed layer.
std::filesystem::path narrowed_path(const std::filesystem::path& folder, int64_t layer);
// Returns a function that reads the MLPs from these files, with their values as the model will
// store them.
WithMlp narrowed_mlps(const CompressionInputs& inputs, const WeightFormats& weights,
                      const std::filesystem::path& folder);

}  // namespace neuronmm::compress
