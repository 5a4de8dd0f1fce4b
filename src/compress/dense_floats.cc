#include "compress/dense_floats.h"

#include <utility>

#include "io/quantization.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

Status check_dense(const io::Checkpoint& checkpoint, int64_t layer, const ops::MlpWeight& mlp) {
  for (const auto& [name, weight] :
       {std::pair("gate", &mlp.gate), std::pair("up", &mlp.up), std::pair("down", &mlp.down)}) {
    if (!weight->low_rank() && !weight->pivoted()) continue;
    return fail("{}: layer {} {} is low-rank already (rank {}); compress the original model",
                checkpoint.folder().string(), layer, name, weight->rank());
  }
  return {};
}

}  // namespace

Status check_dense_floats(const io::Checkpoint& checkpoint, const io::ModelConfig& config) {
  NMM_TRY(model::check_head(checkpoint, config));
  if (config.quantization) {
    return fail(
        "{}: its weights are rounded already ({}); compress the original model with bits 8, 6 or "
        "4, or the floats of this one with --dequantize",
        checkpoint.folder().string(), io::quantization_text(*config.quantization));
  }
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint, config, layer));
    NMM_TRY(check_dense(checkpoint, layer, weights.mlp));
    if (!weights.mixture) continue;
    for (const ops::MlpWeight& expert : weights.mixture->experts) {
      NMM_TRY(check_dense(checkpoint, layer, expert));
    }
  }
  return {};
}

}  // namespace neuronmm::compress
