#include "model/mlp_size.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>

namespace neuronmm::apps {
namespace {

// The layer of "model.layers.3.mlp.up_proj.weight"; -1: no MLP's tensor.
int64_t mlp_layer(std::string_view name) {
  constexpr std::string_view kBegin = "model.layers.", kMlp = ".mlp.";
  if (!name.starts_with(kBegin)) return -1;
  name.remove_prefix(kBegin.size());
  int64_t layer = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc()) return -1;
  name.remove_prefix(static_cast<size_t>(end - name.data()));
  return name.starts_with(kMlp) ? layer : -1;
}

}  // namespace

int64_t MlpSize::parameters() const {
  return std::accumulate(layers.begin(), layers.end(), int64_t{0});
}

MlpSize mlp_size(const io::Checkpoint& checkpoint) {
  MlpSize size;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const int64_t layer = mlp_layer(name);
    if (layer < 0 || tensor.shape.size() != 2) continue;
    if (std::ssize(size.layers) <= layer) size.layers.resize(static_cast<size_t>(layer) + 1);
    size.layers[static_cast<size_t>(layer)] += checkpoint.parameters(name);
  }
  return size;
}

}  // namespace neuronmm::apps
