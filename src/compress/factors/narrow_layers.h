#pragma once
// Narrows every MLP of a model, which then has fewer neurons, or fewer inputs and outputs, or both.
// Every narrowed layer is saved in a file with a checksum until the model is written, so that an
// interrupted run can continue.
//
// `compress` calls narrow_layers() for narrowing by statistics alone. If down is also fitted on the
// text, `compress` calls narrow_layers_on_text() instead. The choice of sizes
// (sizes/shape_choice.h, sizes/held_out_divergence.h) calls narrow_layers() to measure candidates.
// output/model_writer.h copies the tensors of the files into the new model.
//
// Errors come from files that are missing or damaged, from LAPACK, and from values that the stored
// dtype cannot hold. An interrupt is an error, too. All layers that were finished are kept, and the
// same call continues with the others.

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

// Reads the data of a layer. If `files` has no metric, the local one is computed (mlp_metric.h).
// Fails if the statistics or the metric cannot be read or do not fit the model, or if a matrix
// holds NaN or infinity.
Result<MlpData> read_mlp_data(const CompressionInputs& inputs, const StatisticsFiles& files,
                              int64_t layer);

// The sizes and formats of the narrowed MLPs.
struct NarrowRequest {
  StatisticsFiles files;
  // The sizes of each layer, one shape per layer.
  std::vector<io::MlpShape> shapes;
  // The formats in which the model will store its weights.
  WeightFormats weights;
  // Whether a pivoted matrix is stored as two factors (with_factors() in narrow_mlp.h).
  bool pivots_as_factors = false;
  // If not 0, neurons of zeros fill up every layer to this number of neurons. `pivots_as_factors`
  // then has no effect.
  int64_t padded = 0;
  // Returns the neurons of a layer in the order in which they are kept (neuron_order.h). It must be
  // set. Several threads may call it at the same time.
  std::function<Result<std::vector<int32_t>>(int64_t layer)> order;
};

// Narrows by statistics alone. Writes narrowed_path(out, layer) for every layer and skips files
// that exist already and are intact. The files hold the tensors of the MLPs under their names in
// model/mlp_reader.h. Several layers run at the same time. The folder `out` must exist.
//
// Returns one number per layer: the largest absolute entry of the maps between pivots and other
// elements. A large entry would magnify rounding errors.
Result<std::vector<double>> narrow_layers(const CompressionInputs& inputs,
                                          const NarrowRequest& request,
                                          const std::filesystem::path& out);
// Does the same layer by layer, with down fitted on the calibration text `inputs.text`
// (down_fit.h). `out` also holds the state of the fit until the last layer is done.
Result<std::vector<double>> narrow_layers_on_text(const CompressionInputs& inputs,
                                                  const NarrowRequest& request,
                                                  const std::filesystem::path& out);

// Returns the file of a narrowed layer. Its name begins with "shaped-" and stays, because `fit`
// keeps such files in its folder of measurements, which later versions read.
std::filesystem::path narrowed_path(const std::filesystem::path& folder, int64_t layer);
// Returns a function that reads the MLPs from these files, with their values as the model will
// store them. The function fails if a file is missing or damaged. `inputs` must outlive it.
WithMlp narrowed_mlps(const CompressionInputs& inputs, const WeightFormats& weights,
                      const std::filesystem::path& folder);

}  // namespace neuronmm::compress
