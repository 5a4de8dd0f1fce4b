#include "model/mlp_size.h"

#include <numeric>

#include "model/layer_weights.h"

namespace neuronmm::apps {

int64_t MlpSize::parameters() const {
  return std::accumulate(layers.begin(), layers.end(), int64_t{0});
}

MlpSize mlp_size(const io::Checkpoint& checkpoint, const io::ModelConfig& config) {
  MlpSize size;
  const auto& tensors = checkpoint.tensors();
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    int64_t& parameters = size.layers.emplace_back();
    int64_t of_experts = 0;
    const std::string prefix =
        fmt::format("{}layers.{}.mlp.", model::tensor_prefix(checkpoint), layer);
    for (auto it = tensors.lower_bound(prefix);
         it != tensors.end() && it->first.starts_with(prefix); ++it) {
      if (it->second.shape.size() != 2) continue;
      const int64_t of_tensor = checkpoint.parameters(it->first);
      parameters += of_tensor;
      if (it->first.starts_with(prefix + "experts.")) of_experts += of_tensor;
    }
    if (config.is_mixture(layer)) {
      size.idle +=
          of_experts / config.experts->count * (config.experts->count - config.experts->active);
    }
  }
  return size;
}

}  // namespace neuronmm::apps
