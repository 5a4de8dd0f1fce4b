#include "compress/sizes/expert_sizes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/task_labels.h"
#include "compress/factors/layer_tasks.h"
#include "compress/factors/narrow_experts.h"
#include "compress/sizes/mixture_search.h"
#include "compress/sizes/predicted_loss.h"
#include "model/layer_weights.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

// The weight of a predicted loss of a basis of outputs, relative to those of inputs and neurons.
// Without a metric of the model's outputs, errors in directions in which the experts write little
// are overrated. Measured: of 1, 1/4 and 1/10, a quarter loses least
// (docs/measurements/mixture_forms.md).
constexpr double kOutputShare = 0.25;

MlpSizes sizes_of_expert(const io::ModelConfig& config) {
  return {config.hidden_size, config.experts->width};
}

MixtureSizes sizes_of_layer(const io::ModelConfig& config) {
  return {config.hidden_size, config.experts->width, config.experts->count};
}

// Fails if the smallest shape of the form exceeds what the rule keeps.
Status check_smallest(const io::ModelConfig& config, const ExpertSizesRequest& request) {
  const MixtureSizes sizes = sizes_of_layer(config);
  const int64_t least = sizes.parameters(smallest_mixture(request.form, sizes, request.rule.block));
  const double dense = static_cast<double>(sizes.dense_parameters());
  if (static_cast<double>(least) <= (1.0 - request.rule.ratio) * dense) return {};
  return fail(
      "ratio {} with block {} leaves less than the smallest sizes of form {} (a block of {} of the "
      "{} neurons of an expert), which keep {:.4f}; use a smaller ratio or a smaller block",
      request.rule.ratio, request.rule.block, form_name(request.form),
      has_bases(request.form) ? "the hidden size and" : "the", config.experts->width,
      static_cast<double>(least) / dense);
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

// Predicts the losses of all layers and chooses the sizes by them.
class ExpertChoice {
 public:
  ExpertChoice(const CompressionInputs& inputs, const ExpertSizesRequest& request,
               const fs::path& statistics)
      : inputs_(inputs), config_(inputs.config), request_(request), statistics_(statistics) {}

  Result<ExpertSizes> run() {
    sizes_.form = request_.form;
    sizes_.by_formula = request_.uniform || request_.form == Form::kExperts;
    sizes_.uniform = request_.uniform || !has_fewer_neurons(request_.form);
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
    if (has_bases(request_.form)) sizes_.bases.resize(layers);
    NMM_TRY(LayerTasks(inputs_).run(
        task::kPredicting, [](int64_t) { return false; },
        [this](int64_t layer) { return predict(layer); }));
    NMM_TRY(choose());
    return std::move(sizes_);
  }

 private:
  // Drops the experts that the router chooses least often. Among experts that it chooses equally
  // often, drops those with the least sum of routing weights.
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

  // Predicts the loss of each number of neurons of each expert of a layer, and of each rank of the
  // layer's bases.
  Status predict(int64_t layer) {
    if (!config_.is_mixture(layer)) return {};
    NMM_ASSIGN(const auto weights, model::layer_weights(inputs_.checkpoint, config_, layer));
    const auto l = static_cast<size_t>(layer);
    NMM_ASSIGN(DoubleMatrix in, read_layer_inputs(statistics_, layer, config_));
    SharedEnergies energies(std::move(in));
    for (int64_t expert = 0; expert < config_.experts->count; ++expert) {
      const auto e = static_cast<size_t>(expert);
      NMM_ASSIGN(MlpData data, read_expert_data(inputs_, statistics_, layer, expert,
                                                weights.mixture->experts[e]));
      std::vector<int32_t>& order = sizes_.orders[l].emplace_back();
      if (has_fewer_neurons(request_.form)) {
        NMM_ASSIGN(NeuronLosses found, predict_neurons(data.mlp.down_t, data.statistics.neurons,
                                                       local_root(data.metric)));
        order = std::move(found.order);
        losses_[l].neurons.push_back(std::move(found.losses));
      }
      if (!has_bases(request_.form)) continue;
      NMM_ASSIGN(const KeptNeurons all,
                 keep_neurons(std::move(data.mlp), std::move(data.statistics.neurons), data.metric,
                              {}, {}));
      energies.add(all, data.metric.out(0, 0), sizes_.layers[l][e].use.squares);
    }
    if (!has_bases(request_.form)) return {};
    NMM_ASSIGN(losses_[l].bases, energies.losses());
    for (double& loss : losses_[l].bases.output) loss *= kOutputShare;
    return {};
  }

  Status choose() {
    NMM_ASSIGN(const std::vector<MixtureShape> chosen, chosen_shapes());
    auto next = chosen.begin();
    for (size_t l = 0; l < sizes_.layers.size(); ++l) {
      if (sizes_.layers[l].empty()) continue;
      const MixtureShape& shape = *next++;
      if (has_bases(request_.form)) {
        sizes_.bases[l] = {shape.bases, basis_loss(losses_[l], shape.bases)};
      }
      for (size_t e = 0; e < sizes_.layers[l].size(); ++e) {
        ExpertReport& expert = sizes_.layers[l][e];
        expert.neurons = shape.neurons[e];
        if (losses_[l].neurons.empty()) continue;
        expert.predicted_loss = losses_[l].neurons[e][static_cast<size_t>(expert.neurons)];
      }
    }
    return {};
  }

  // Returns the shapes of the layers that are mixtures.
  Result<std::vector<MixtureShape>> chosen_shapes() const {
    const MixtureSizes sizes = sizes_of_layer(config_);
    std::vector<MixtureLosses> mixtures;
    for (size_t l = 0; l < losses_.size(); ++l) {
      if (!sizes_.layers[l].empty()) mixtures.push_back(losses_[l]);
    }
    if (request_.uniform) {
      MixtureShape shape = sizes.whole();
      if (request_.form == Form::kBasis) {
        NMM_ASSIGN(const int64_t rank, uniform_basis(sizes, request_.rule));
        shape.bases = {rank, rank};
      } else {
        NMM_ASSIGN(const io::MlpShape of_expert,
                   uniform_shape(Form::kNeurons, sizes_of_expert(config_), request_.rule));
        std::ranges::fill(shape.neurons, of_expert.neurons);
      }
      return std::vector(mixtures.size(), shape);
    }
    const auto dense = static_cast<double>(sizes.dense_parameters() * std::ssize(mixtures));
    const auto budget = static_cast<int64_t>((1.0 - request_.rule.ratio) * dense);
    return find_mixture_shapes(request_.form, sizes, request_.rule.block, mixtures, budget);
  }

  const CompressionInputs& inputs_;
  const io::ModelConfig& config_;
  const ExpertSizesRequest& request_;
  const fs::path& statistics_;
  std::vector<MixtureLosses> losses_;  // of every layer
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

std::vector<io::ExpertBases> ExpertSizes::basis_ranks() const {
  std::vector<io::ExpertBases> ranks;
  for (const BasisReport& layer : bases) ranks.push_back(layer.ranks);
  return ranks;
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
  if (!request.uniform) return check_smallest(config, request);
  if (request.form == Form::kBasis) {
    NMM_ASSIGN(const int64_t rank, uniform_basis(sizes_of_layer(config), request.rule));
    (void)rank;
    return {};
  }
  if (request.form == Form::kMixed) {
    return fail(
        "form mixed of a mixture has no uniform sizes; use allocate predicted, or form neurons or "
        "basis");
  }
  NMM_ASSIGN(const io::MlpShape shape,
             uniform_shape(Form::kNeurons, sizes_of_expert(config), request.rule));
  (void)shape;
  return {};
}

Result<ExpertSizes> choose_expert_sizes(const CompressionInputs& inputs,
                                        const ExpertSizesRequest& request,
                                        const fs::path& statistics) {
  return ExpertChoice(inputs, request, statistics).run();
}

io::ModelConfig config_of_experts(io::ModelConfig config, const ExpertSizes& sizes) {
  io::Experts& experts = *config.experts;
  experts.bases = sizes.basis_ranks();
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
