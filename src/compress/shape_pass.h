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
#include "compress/narrow_mlp.h"

namespace neuronmm::compress {

// What of one layer is known before.
struct KnownMlp {
  DenseMlp mlp;
  MlpStatistics statistics;
  MlpMetric metric;
  std::vector<int32_t> order;  // of predict_losses()
};

struct ShapePass {
  std::vector<io::MlpShape> shapes;  // per layer
  bool as_factors = false;           // with_factors() makes of each MLP what is stored
  std::function<Result<KnownMlp>(int64_t layer)> know;
  // Called with the finished MLP of each layer, in order.
  std::function<Status(int64_t layer, const NarrowMlp& mlp)> save;
  // The MLP that was saved; nothing if there is none.
  std::function<std::optional<NarrowMlp>(int64_t layer)> saved;
};

// Goes on from the state in `work` that an interrupted run left.
Status run_shape_pass(const CompressionInputs& inputs, const ShapePass& settings,
                      const std::filesystem::path& work);

}  // namespace neuronmm::compress
