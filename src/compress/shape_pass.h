#pragma once
// Narrow MLPs fitted to what they will really be handed. The calibration text runs through the
// model once more, layer by layer, and down is fitted to the neurons that the narrowed gate and up
// make:
//
//   down = argmin Σ ‖t - W·ĥ‖² + λ ‖W - W₀‖²,  W₀ from the dense model's statistics
//
// ĥ [k] the neurons of the narrowed gate and up, in fp64 Gram matrices [k, k] (the full optimum,
// not one among the rows of the dense down), and
//
//   kLocal       x from the dense model, t the dense MLP's output: a layer makes up for itself
//   kErrorAware  x̂ from the compressed layers before, t what is missing to the dense model's hidden
//                state after the layer, so that a layer makes up for all before it; gate and up aim
//                at the dense model's input (refit.h)

#include <filesystem>
#include <functional>

#include "base/result.h"
#include "compress/inputs.h"
#include "compress/narrow_mlp.h"

namespace neuronmm::compress {

enum class FitTo { kLocal, kErrorAware };

// What of one layer is known before.
struct KnownMlp {
  DenseMlp mlp;
  MlpStatistics statistics;
  MlpMetric metric;
  std::vector<int32_t> order;  // of predict_losses()
};

struct ShapePass {
  FitTo fit_to = FitTo::kLocal;
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
