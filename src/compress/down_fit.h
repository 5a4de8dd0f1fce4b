#pragma once
// Fits the down matrix of narrow MLPs to the neurons that the narrowed gate and up really make. The
// calibration text runs through the dense model once more, layer by layer:
//
//   down = argmin Σ ‖t - W·ĥ‖² + λ ‖W - W₀‖²,  W₀ from the dense model's statistics
//
// ĥ [k] are the neurons that the narrowed gate and up make of the dense model's hidden states, and
// t [H] is the output of the dense MLP. The Gram matrices [k, k] are fp64, and the optimum is taken
// over all matrices W, not only over those made of rows of the dense down.

#include <filesystem>
#include <functional>

#include "base/result.h"
#include "compress/inputs.h"
#include "compress/narrow_layers.h"
#include "compress/narrow_mlp.h"

namespace neuronmm::compress {

struct DownFit {
  std::vector<io::MlpShape> shapes;  // per layer
  WeightFormats weights;             // as the model will store them
  bool as_factors = false;           // with_factors() makes of each MLP what is stored
  std::function<Result<KnownMlp>(int64_t layer)> know;
  // The order in which the neurons of a layer stay (predicted_loss.h).
  std::function<Result<std::vector<int32_t>>(int64_t layer)> order;
  // Called with the finished MLP of each layer, in the order of the layers.
  std::function<Status(int64_t layer, const NarrowMlp& mlp)> save;
  // Whether an earlier run has saved this layer.
  std::function<bool(int64_t layer)> is_saved;
};

// Goes on from the state in `work` that an interrupted run left.
Status fit_downs(const CompressionInputs& inputs, const DownFit& settings,
                 const std::filesystem::path& work);

}  // namespace neuronmm::compress
