#include "compress/statistics/mlp_statistics.h"

#include <optional>
#include <system_error>

#include "base/task_labels.h"
#include "compress/linear_algebra/gram.h"
#include "compress/statistics/attention_recorder.h"
#include "compress/statistics/expert_statistics.h"
#include "compress/statistics/layerwise_pass.h"
#include "compress/statistics/means_file.h"
#include "compress/statistics/open_mlp.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStatisticsPass = "statistics";

enum Sum { kIn, kNeurons, kGateSlope, kUpSlope, kResidual, kMlpSums };
enum LinearSum { kAttention = kMlpSums, kMixed, kHeads, kHead };

// Returns whether some layer has one MLP. Models whose layers are all mixtures have the sums of
// such MLPs, too, but with no memory for their neurons.
bool has_dense_layers(const io::ModelConfig& config) {
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (!config.is_mixture(layer)) return true;
  }
  return false;
}

std::vector<Mean> mlp_means(const io::ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  const int64_t inner = has_dense_layers(config) ? config.intermediate_size : 1;
  return {{"in", {hidden, hidden}, true},
          {"neurons", {inner, inner}, true},
          {"gate_slope", {1, inner}},
          {"up_slope", {1, inner}},
          {"residual", {1, 1}}};
}

std::vector<Mean> attention_means(const io::ModelConfig& config) {
  const int64_t heads = config.num_attention_heads * config.head_dim;
  const int64_t hidden = config.hidden_size;
  return {{"in", {hidden, hidden}, true},
          {"mixed", {hidden, hidden}, true},
          {"heads", {heads, heads}, true}};
}

std::vector<Mean> head_means(const io::ModelConfig& config) {
  return {{"in", {config.hidden_size, config.hidden_size}, true}};
}

// Returns the shapes of the sums, in the order of the enumerations Sum and LinearSum. Those of
// experts come last.
std::vector<Shape> sum_shapes(const io::ModelConfig& config, Gathered what) {
  std::vector<Mean> means = mlp_means(config);
  if (what == Gathered::kAllLinears) {
    for (const Mean& mean : attention_means(config)) means.push_back(mean);
    for (const Mean& mean : head_means(config)) means.push_back(mean);
  }
  std::vector<Shape> shapes;
  for (const Mean& mean : means) shapes.push_back(mean.shape);
  if (!config.experts) return shapes;
  for (const Shape& shape : expert_sum_shapes(config, what)) shapes.push_back(shape);
  return shapes;
}

// Returns the number of the first sum of the experts.
size_t first_expert_sum(Gathered what) {
  return what == Gathered::kAllLinears ? size_t{kHead} + 1 : size_t{kMlpSums};
}

// The second half of a layer, whose neurons are visible.
class OpenNormedMlp {
 public:
  OpenNormedMlp(const io::ModelConfig& config, const model::LayerWeights& weights,
                const ops::Backend& backend)
      : backend_(backend),
        around_(config, weights.post_attention_norm, weights.mlp_output_norm),
        norms_output_(!weights.mlp_output_norm.empty()),
        mlp_(weights.mlp, backend) {}

  void apply(MutableMatrixView hidden, std::span<DoubleMatrix> sums) const {
    Matrix normed(hidden.rows, hidden.columns);
    const ConstMatrixView input = around_.input(backend_, hidden, normed.view());
    // A layer with fewer neurons fills the first rows and columns only. The others stay 0.
    const Matrix neurons = mlp_.neurons_of(input, {}, sums[kGateSlope], sums[kUpSlope]);
    add_gram(input, sums[kIn]);
    add_gram(neurons.view(), sums[kNeurons]);
    mlp_.finish(neurons.view(), normed.view());
    const double before = norms_output_ ? mean_squares(normed.view()) : 0.0;
    around_.finish(backend_, normed.view());
    backend_.add(normed.view(), hidden);
    // A norm of the output makes an error of down larger or smaller. The residual stream is
    // measured in the units that down has.
    const double after = norms_output_ ? mean_squares(normed.view()) : 0.0;
    sums[kResidual](0, 0) += mean_squares(hidden) * (after > 0.0 ? before / after : 1.0);
  }

 private:
  const ops::Backend& backend_;
  model::SubLayer around_;
  bool norms_output_;
  OpenMlp mlp_;
};

// Writes as many of the pass's sums as there are means, beginning with sum `first`.
Status write_sums(LayerwisePass& pass, const fs::path& path, const std::vector<Mean>& means,
                  size_t first, int64_t tokens, const std::string& source) {
  std::vector<DoubleMatrix*> sums;
  for (size_t i = 0; i < means.size(); ++i) sums.push_back(&pass.sum(first + i));
  return write_means(path, means, sums, tokens, source);
}

// Sums up the Gram matrix of what the LM head reads. It runs after the last layer.
class HeadInput {
 public:
  static Result<HeadInput> load(const io::Checkpoint& checkpoint, const io::ModelConfig& config) {
    NMM_ASSIGN(
        const TensorView norm,
        checkpoint.require(model::tensor_prefix(checkpoint) + "norm.weight", {config.hidden_size}));
    HeadInput input;
    input.norm_ = model::norm_gains(norm, config);
    input.eps_ = static_cast<float>(config.rms_norm_eps);
    return input;
  }
  void add_to(DoubleMatrix& sum, const ops::Backend& backend, ConstMatrixView hidden) const {
    Matrix normed(hidden.rows, hidden.columns);
    backend.rms_norm(hidden, norm_, eps_, normed.view());
    add_gram(normed.view(), sum);
  }

 private:
  std::vector<float> norm_;
  float eps_ = 0;
};

bool all_gathered(const io::ModelConfig& config, const fs::path& work, Gathered what) {
  std::error_code ignored;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (!check_statistics(work, layer, config).ok()) return false;
  }
  if (what == Gathered::kAllLinears && !check_linear_statistics(work, config).ok()) return false;
  return fs::status(LayerwisePass::state_path(work, kStatisticsPass), ignored).type() ==
         fs::file_type::not_found;
}

class StatisticsVisit : public SequenceVisit {
 public:
  StatisticsVisit(const VisitContext& context, int64_t layer, Gathered what,
                  const model::LayerWeights& weights, HeadInput head)
      : context_(context),
        all_(what == Gathered::kAllLinears),
        last_(layer == context.config.num_hidden_layers - 1),
        recorder_(context.backend, {adding_to(kAttention), adding_to(kMixed), adding_to(kHeads)}),
        first_expert_sum_(first_expert_sum(what)),
        layer_(context.config, 0, weights, all_ ? recorder_ : context.backend),
        head_(std::move(head)) {
    if (weights.mixture) {
      mixture_.emplace(context.config, weights, context.backend);
    } else {
      mlp_.emplace(context.config, weights, context.backend);
    }
  }

  void visit(const SequenceState& state) override {
    sums_ = state.sums;
    const MutableMatrixView hidden = state.hidden;
    model::begin_sequence(context_.config, hidden.rows, context_.cache);
    const ops::SequenceRows rows = {&context_.cache, hidden.rows};
    layer_.attention_half(hidden, context_.rotary, std::span(&rows, 1));
    if (mixture_) {
      mixture_->apply(hidden, sums_[kIn], sums_[kResidual], sums_.subspan(first_expert_sum_));
    } else {
      mlp_->apply(hidden, sums_);
    }
    if (all_ && last_) head_.add_to(sums_[kHead], context_.backend, hidden);
  }

 private:
  AttentionRecorder::Seen adding_to(size_t sum) {
    return [this, sum](ConstMatrixView rows) { add_gram(rows, sums_[sum]); };
  }

  VisitContext context_;
  bool all_, last_;
  AttentionRecorder recorder_;
  size_t first_expert_sum_;
  model::DecoderLayer layer_;
  std::optional<OpenNormedMlp> mlp_;  // one of the two
  std::optional<OpenMixture> mixture_;
  HeadInput head_;
  // The sums of the sequence that is being visited.
  std::span<DoubleMatrix> sums_;
};

LayerVisit statistics_visit(int64_t layer, Gathered what) {
  MessageWriter arguments;
  arguments.put(what);
  return {.kind = VisitKind::kStatistics, .layer = layer, .arguments = arguments.take()};
}

// Writes the statistics of the layer's MLP, or of its experts.
Status write_mlp(LayerwisePass& pass, const fs::path& path, const io::ModelConfig& config,
                 Gathered what, int64_t tokens, const std::string& source) {
  if (!config.is_mixture(pass.layer())) {
    return write_sums(pass, path, mlp_means(config), kIn, tokens, source);
  }
  std::vector<DoubleMatrix*> sums;
  const size_t first = first_expert_sum(what), count = expert_sum_shapes(config, what).size();
  for (size_t i = 0; i < count; ++i) sums.push_back(&pass.sum(first + i));
  return write_expert_statistics(path, config, tokens, pass.sum(kIn), pass.sum(kResidual), sums,
                                 source);
}

// Writes the files of the layer that the pass has finished.
Status write_layer(const CompressionInputs& inputs, LayerwisePass& pass, const fs::path& work,
                   Gathered what) {
  const io::ModelConfig& config = inputs.config;
  const int64_t layer = pass.layer(), tokens = inputs.text->origin.tokens;
  const std::string folder = inputs.checkpoint.folder().string();
  NMM_TRY(write_mlp(pass, statistics_path(work, layer), config, what, tokens,
                    fmt::format("{}: the MLP of layer {}", folder, layer)));
  if (what != Gathered::kAllLinears) return {};
  NMM_TRY(write_sums(pass, attention_path(work, layer), attention_means(config), kAttention, tokens,
                     fmt::format("{}: attention of layer {}", folder, layer)));
  if (layer + 1 < config.num_hidden_layers) return {};
  return write_sums(pass, head_path(work), head_means(config), kHead, tokens,
                    fmt::format("{}: the last layer", folder));
}

}  // namespace

fs::path statistics_path(const fs::path& work, int64_t layer) {
  return work / fmt::format("mlp-{:05}.safetensors", layer);
}

fs::path attention_path(const fs::path& work, int64_t layer) {
  return work / fmt::format("attention-{:05}.safetensors", layer);
}

fs::path head_path(const fs::path& work) { return work / "head.safetensors"; }

Result<MlpStatistics> read_statistics(const fs::path& work, int64_t layer,
                                      const io::ModelConfig& config) {
  NMM_ASSIGN(auto means, read_means(statistics_path(work, layer), mlp_means(config)));
  return MlpStatistics{std::move(means[kIn]), std::move(means[kNeurons]),
                       std::move(means[kGateSlope]), std::move(means[kUpSlope]),
                       std::move(means[kResidual])};
}

Result<AttentionStatistics> read_attention_statistics(const fs::path& work, int64_t layer,
                                                      const io::ModelConfig& config) {
  NMM_ASSIGN(auto means, read_means(attention_path(work, layer), attention_means(config)));
  return AttentionStatistics{std::move(means[0]), std::move(means[1]), std::move(means[2])};
}

Result<DoubleMatrix> read_head_statistics(const fs::path& work, const io::ModelConfig& config) {
  NMM_ASSIGN(auto means, read_means(head_path(work), head_means(config)));
  return std::move(means[0]);
}

Status check_statistics(const fs::path& work, int64_t layer, const io::ModelConfig& config) {
  const fs::path path = statistics_path(work, layer);
  if (config.is_mixture(layer)) return check_expert_statistics(path, config);
  return check_means(path, mlp_means(config));
}

Status check_linear_statistics(const fs::path& work, const io::ModelConfig& config) {
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    NMM_TRY(check_means(attention_path(work, layer), attention_means(config)));
  }
  return check_means(head_path(work), head_means(config));
}

VisitResult make_statistics_visit(const VisitContext& context, const LayerVisit& visit) {
  MessageReader arguments(visit.arguments);
  const auto what = arguments.value<Gathered>();
  NMM_ASSIGN(const auto weights,
             model::layer_weights(context.checkpoint, context.config, visit.layer));
  NMM_ASSIGN(HeadInput head, HeadInput::load(context.checkpoint, context.config));
  return VisitResult(
      std::make_unique<StatisticsVisit>(context, visit.layer, what, weights, std::move(head)));
}

Status gather_statistics(const CompressionInputs& inputs, const fs::path& work, Gathered what) {
  if (all_gathered(inputs.config, work, what)) return {};
  const LayerwisePass::Settings settings = {.name = kStatisticsPass,
                                            .label = task::kCalibrating,
                                            .sums = sum_shapes(inputs.config, what)};
  NMM_ASSIGN(LayerwisePass pass, LayerwisePass::open(inputs, work, settings));
  while (!pass.done()) {
    NMM_TRY(pass.visit(statistics_visit(pass.layer(), what)));
    NMM_TRY(write_layer(inputs, pass, work, what));
    NMM_TRY(pass.next_layer());
  }
  return {};
}

}  // namespace neuronmm::compress
