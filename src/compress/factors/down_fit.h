#pragma once
// Fits the down matrix of narrow MLPs to the neurons that the narrowed gate and up compute.
// narrow_layers_on_text() (narrow_layers.h) calls fit_downs(). The calibration text runs through
// the dense model once more, layer by layer, and each layer gets
//
//   down = argmin Σ ‖t - W·ĥ‖² + λ ‖W - W₀‖²
//
// ĥ [k] are the neurons that the narrowed gate and up compute from the dense model's hidden states.
// t [H] is the output of the dense MLP. W₀ is the down matrix that follows from the dense model's
// statistics. The Gram matrices [k, k] are fp64. The minimum is over all matrices W, not only over
// combinations of the dense down's rows.
//
// The fit fails if a layer produces NaN or infinity, if LAPACK fails, or if one of the caller's
// functions does. An interrupt is an error, too; the work so far is kept, and the same call
// continues it.

#include <filesystem>
#include <functional>

#include "base/result.h"
#include "compress/factors/narrow_layers.h"
#include "compress/factors/narrow_mlp.h"
#include "compress/statistics/inputs.h"

namespace neuronmm::compress {

// The sizes and formats of a fit, and functions that read and save the data of a layer. All four
// functions must be set. An error that one of them returns ends the fit and is returned.
struct DownFit {
  // The sizes of each layer, one shape per layer.
  std::vector<io::MlpShape> shapes;
  // The formats in which the model will store its weights.
  WeightFormats weights;
  // Whether a pivoted matrix is stored as two factors (with_factors() in narrow_mlp.h).
  bool pivots_as_factors = false;
  // Reads the weights, the statistics and the metric of a layer (read_mlp_data()).
  std::function<Result<MlpData>(int64_t layer)> read;
  // Returns the neurons of a layer in the order in which they are kept (neuron_order.h).
  std::function<Result<std::vector<int32_t>>(int64_t layer)> order;
  // Saves the finished MLP of a layer. The layers come in order.
  std::function<Status(int64_t layer, const NarrowMlp& mlp)> save;
  // Returns whether an earlier run has saved this layer.
  std::function<bool(int64_t layer)> is_saved;
};

// Fits the downs of all layers on the sequences of `inputs.text`, which must not be null. Continues
// from the state in `work` that an interrupted run left. If a layer before this state is not saved,
// the fit begins again. Does nothing if there is no state and all layers are saved, because an
// earlier run has ended the fit then.
Status fit_downs(const CompressionInputs& inputs, const DownFit& settings,
                 const std::filesystem::path& work);

}  // namespace neuronmm::compress
