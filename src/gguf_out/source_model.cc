#include "gguf_out/source_model.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "io/model_folder.h"
#include "model/weight_reader.h"

namespace neuronmm::gguf_out {
namespace {

std::span<const ops::MlpWeight> experts_of(const model::LayerWeights& layer) {
  if (!layer.mixture) return {};
  return layer.mixture->experts;
}

bool mlp_has_factors(const ops::MlpWeight& mlp) {
  const auto other = [](const ops::LinearWeight& weight) {
    return weight.low_rank() || weight.pivoted();
  };
  return !mlp.in.empty() || other(mlp.gate) || other(mlp.up) || other(mlp.down);
}

// Returns b·v of a bias b [r'] for a basis v [H, r'].
std::vector<float> multiplied(const TensorView& bias, const ops::WeightView& basis) {
  std::vector<double> values(static_cast<size_t>(bias.size())), row(values.size());
  to_doubles(bias, 0, bias.size(), values.data());
  std::vector<float> out;
  for (int64_t i = 0; i < basis.rows(); ++i) {
    ops::to_doubles(basis, i * basis.columns(), basis.columns(), row.data());
    out.push_back(
        static_cast<float>(std::inner_product(row.begin(), row.end(), values.begin(), 0.0)));
  }
  return out;
}

// Makes factors of the experts' matrices and the bases that they share.
void separate_bases(ops::MixtureWeight& mixture, std::deque<std::vector<float>>& biases) {
  for (ops::MlpWeight& expert : mixture.experts) {
    if (!mixture.input.w_t.empty()) {
      for (ops::LinearWeight* const linear : {&expert.gate, &expert.up}) {
        linear->v_t = std::exchange(linear->w_t, {});
        linear->u_t = mixture.input.w_t;
      }
    }
    if (mixture.output.w_t.empty()) continue;
    expert.down.u_t = std::exchange(expert.down.w_t, {});
    expert.down.v_t = mixture.output.w_t;
    if (expert.down.bias.empty()) continue;
    const auto& bias = biases.emplace_back(multiplied(expert.down.bias, mixture.output.w_t));
    expert.down.bias = {DType::kF32, {std::ssize(bias)}, std::as_bytes(std::span(bias)).data()};
  }
  mixture.input = mixture.output = {};
}

}  // namespace

Result<SourceModel> SourceModel::open(const std::filesystem::path& path) {
  NMM_ASSIGN(io::ModelFolder folder, io::open_model(path));
  SourceModel source{std::move(folder.config), std::move(folder.checkpoint), {}, {}, {}, {}, {}};
  const io::ModelConfig& config = source.config;
  const std::string prefix = model::tensor_prefix(source.checkpoint);
  const Shape shape = {config.vocab_size, config.hidden_size};
  NMM_ASSIGN(source.table, model::require_weight(source.checkpoint, config,
                                                 prefix + "embed_tokens.weight", shape));
  NMM_TRY(model::check_head(source.checkpoint, config));
  if (!config.tie_word_embeddings) {
    NMM_ASSIGN(source.head,
               model::require_weight(source.checkpoint, config, "lm_head.weight", shape));
  }
  NMM_ASSIGN(source.norm, source.checkpoint.require(prefix + "norm.weight", {config.hidden_size}));
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    NMM_ASSIGN(auto weights, model::layer_weights(source.checkpoint, config, layer));
    if (weights.mixture) separate_bases(*weights.mixture, source.biases);
    source.layers.push_back(std::move(weights));
  }
  return source;
}

int64_t SourceModel::expert_neurons() const {
  int64_t most = 0;
  for (const model::LayerWeights& layer : layers) {
    for (const ops::MlpWeight& expert : experts_of(layer)) most = std::max(most, expert.neurons());
  }
  return most;
}

bool SourceModel::has_factors() const {
  return std::ranges::any_of(layers, [](const model::LayerWeights& layer) {
    return layer.mixture ? std::ranges::any_of(layer.mixture->experts, mlp_has_factors)
                         : mlp_has_factors(layer.mlp);
  });
}

bool SourceModel::has_fewer_neurons() const {
  return std::ranges::any_of(layers, [&](const model::LayerWeights& layer) {
    if (!layer.mixture) return layer.mlp.neurons() < config.intermediate_size;
    return std::ranges::any_of(experts_of(layer), [&](const ops::MlpWeight& expert) {
      return expert.neurons() < config.experts->width;
    });
  });
}

}  // namespace neuronmm::gguf_out
