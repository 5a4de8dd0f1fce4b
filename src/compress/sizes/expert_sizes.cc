#include "compress/sizes/expert_sizes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/task_labels.h"
#include "compress/factors/layer_tasks.h"
#include "compress/factors/narrow_experts.h"
#include "compress/sizes/predicted_loss.h"
#include "compress/sizes/shape_search.h"
#include "model/layer_weights.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

MlpSizes sizes_of_expert(const io::ModelConfig& config) {
  return {config.hidden_size, config.experts->width};
}

// Returns how many experts of a layer are left.
Result<int64_t> experts_left(const io::ModelConfig& config, double ratio) {
  const io::Experts& experts = *config.experts;
  const int64_t left = std::llround((1.0 - ratio) * static_cast<double>(experts.count));
  if (left >= experts.active && left < experts.count) return left;
  return fail("ratio {} leaves {} of {} experts, {}; use {} ratio", ratio, left, experts.count,
              left < experts.count ? fmt::format("of which each token needs {}", experts.active)
                                   : "which saves nothing",
              left < experts.count ? "a smaller" : "a larger");
}

// Returns the root of the local metric, which is a multiple of the identity.
DoubleMatrix local_root(const MlpMetric& metric) {
  DoubleMatrix root(metric.out.rows(), metric.out.columns());
  for (int64_t i = 0; i < root.rows(); ++i) root(i, i) = std::sqrt(metric.out(i, i));
  return root;
}

class ExpertChoice {
 public:
  ExpertChoice(const CompressionInputs& inputs, const ExpertSizesRequest& request,
               const fs::path& statistics)
      : inputs_(inputs), config_(inputs.config), request_(request), statistics_(statistics) {}

  Result<ExpertSizes> run() {
    sizes_.form = request_.form;
    sizes_.uniform = request_.form == Form::kExperts || request_.uniform;
    const auto layers = static_cast<size_t>(config_.num_hidden_layers);
    sizes_.layers.resize(layers);
    NMM_ASSIGN(const auto uses, read_expert_uses(statistics_, config_));
    for (size_t layer = 0; layer < layers; ++layer) {
      for (const ExpertUse& use : uses[layer]) {
        sizes_.layers[layer].push_back({use, config_.experts->width, 0.0});
      }
    }
    if (request_.form == Form::kExperts) {
      NMM_TRY(drop_experts());
      return std::move(sizes_);
    }
    losses_.resize(layers);
    sizes_.orders.resize(layers);
    NMM_TRY(LayerTasks(inputs_).run(
        task::kPredicting, [](int64_t) { return false; },
        [this](int64_t layer) { return predict(layer); }));
    NMM_TRY(choose_neurons());
    return std::move(sizes_);
  }

 private:
  // The experts that are chosen least often are dropped. Among equals, those with the least sum of
  // routing weights.
  Status drop_experts() {
    NMM_ASSIGN(const int64_t left, experts_left(config_, request_.rule.ratio));
    for (std::vector<ExpertReport>& layer : sizes_.layers) {
      std::vector<size_t> order(layer.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::ranges::stable_sort(order, std::greater<>(), [&](size_t e) {
        return std::pair(layer[e].use.tokens, layer[e].use.weight);
      });
      for (size_t i = static_cast<size_t>(left); i < order.size(); ++i) layer[order[i]].neurons = 0;
    }
    return {};
  }

  // Predicts what each number of neurons of each expert of a layer loses.
  Status predict(int64_t layer) {
    if (!config_.is_mixture(layer)) return {};
    NMM_ASSIGN(const auto weights, model::layer_weights(inputs_.checkpoint, config_, layer));
    const auto l = static_cast<size_t>(layer);
    for (int64_t expert = 0; expert < config_.experts->count; ++expert) {
      const auto& mlp = weights.mixture->experts[static_cast<size_t>(expert)];
      NMM_ASSIGN(const ExpertData data, read_expert_data(inputs_, statistics_, layer, expert, mlp));
      NMM_ASSIGN(NeuronLosses found, predict_neurons(data.mlp.down_t, data.statistics.neurons,
                                                     local_root(data.metric)));
      sizes_.orders[l].push_back(std::move(found.order));
      losses_[l].emplace_back().neurons = std::move(found.losses);
    }
    return {};
  }

  Status choose_neurons() {
    NMM_ASSIGN(const std::vector<int64_t> chosen, chosen_neurons());
    size_t next = 0;
    for (size_t l = 0; l < sizes_.layers.size(); ++l) {
      for (size_t e = 0; e < sizes_.layers[l].size(); ++e) {
        ExpertReport& expert = sizes_.layers[l][e];
        expert.neurons = chosen[next++];
        expert.predicted_loss = losses_[l][e].neurons[static_cast<size_t>(expert.neurons)];
      }
    }
    return {};
  }

  // Returns the number of neurons of all experts, layer after layer.
  Result<std::vector<int64_t>> chosen_neurons() const {
    const MlpSizes sizes = sizes_of_expert(config_);
    std::vector<PredictedLosses> all;
    for (const auto& layer : losses_) all.insert(all.end(), layer.begin(), layer.end());
    if (sizes_.uniform) {
      NMM_ASSIGN(const io::MlpShape shape, uniform_shape(Form::kNeurons, sizes, request_.rule));
      return std::vector<int64_t>(all.size(), shape.neurons);
    }
    const auto dense = static_cast<double>(sizes.dense_parameters() * std::ssize(all));
    const auto budget = static_cast<int64_t>((1.0 - request_.rule.ratio) * dense);
    NMM_ASSIGN(const FoundShapes found,
               find_shapes(Form::kNeurons, sizes, request_.rule.block, all, budget));
    std::vector<int64_t> neurons;
    for (const io::MlpShape& shape : found.shapes) {
      neurons.push_back(shape.neurons > 0 ? shape.neurons : sizes.inner);
    }
    return neurons;
  }

  const CompressionInputs& inputs_;
  const io::ModelConfig& config_;
  const ExpertSizesRequest& request_;
  const fs::path& statistics_;
  std::vector<std::vector<PredictedLosses>> losses_;  // only their neurons
  ExpertSizes sizes_;
};

}  // namespace

std::vector<std::vector<int64_t>> ExpertSizes::widths() const {
  std::vector<std::vector<int64_t>> all;
  for (const auto& layer : layers) {
    auto& widths = all.emplace_back();
    for (const ExpertReport& expert : layer) widths.push_back(expert.neurons);
  }
  return all;
}

std::vector<std::vector<ExpertUse>> ExpertSizes::uses() const {
  std::vector<std::vector<ExpertUse>> all;
  for (const auto& layer : layers) {
    auto& uses = all.emplace_back();
    for (const ExpertReport& expert : layer) uses.push_back(expert.use);
  }
  return all;
}

std::vector<int32_t> ExpertSizes::kept(int64_t layer) const {
  std::vector<int32_t> kept;
  const auto& experts = layers[static_cast<size_t>(layer)];
  for (size_t e = 0; e < experts.size(); ++e) {
    if (experts[e].neurons > 0) kept.push_back(static_cast<int32_t>(e));
  }
  return kept;
}

Status check_expert_sizes(const io::ModelConfig& config, const ExpertSizesRequest& request) {
  if (request.form == Form::kExperts) {
    NMM_ASSIGN(const int64_t left, experts_left(config, request.rule.ratio));
    (void)left;
    return {};
  }
  if (request.uniform) {
    NMM_ASSIGN(const io::MlpShape shape,
               uniform_shape(Form::kNeurons, sizes_of_expert(config), request.rule));
    (void)shape;
    return {};
  }
  const int64_t width = config.experts->width, least = std::min(request.rule.block, width);
  if (static_cast<double>(least) <= (1.0 - request.rule.ratio) * static_cast<double>(width)) {
    return {};
  }
  return fail(
      "ratio {} with block {} leaves less than a block of the {} neurons of an expert; use a "
      "smaller ratio or a smaller block",
      request.rule.ratio, request.rule.block, width);
}

Result<ExpertSizes> choose_expert_sizes(const CompressionInputs& inputs,
                                        const ExpertSizesRequest& request,
                                        const fs::path& statistics) {
  return ExpertChoice(inputs, request, statistics).run();
}

io::ModelConfig config_of_experts(io::ModelConfig config, const ExpertSizes& sizes) {
  io::Experts& experts = *config.experts;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (!config.is_mixture(layer)) continue;
    if (sizes.form == Form::kExperts) {
      experts.count = std::ssize(sizes.kept(layer));
    } else if (sizes.uniform) {
      experts.width = sizes.layers[static_cast<size_t>(layer)].front().neurons;
    } else {
      experts.widths = sizes.widths();
    }
  }
  return config;
}

}  // namespace neuronmm::compress
