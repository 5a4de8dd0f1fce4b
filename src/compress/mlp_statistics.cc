#include "compress/mlp_statistics.h"

#include <algorithm>
#include <cmath>
#include <system_error>

#include "base/parallel.h"
#include "compress/attention_recorder.h"
#include "compress/gram.h"
#include "compress/layerwise_pass.h"
#include "compress/means_file.h"
#include "model/rope.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStatisticsPass = "statistics";

enum Sum { kIn, kNeurons, kGateSlope, kUpSlope, kResidual, kMlpSums };
enum LinearSum { kAttention = kMlpSums, kMixed, kHeads, kHead };

std::vector<Mean> mlp_means(const io::ModelConfig& config) {
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
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

// In the order of the two enumerations.
std::vector<Shape> sum_shapes(const io::ModelConfig& config, Gathered what) {
  std::vector<Mean> means = mlp_means(config);
  if (what == Gathered::kAllLinears) {
    for (const Mean& mean : attention_means(config)) means.push_back(mean);
    for (const Mean& mean : head_means(config)) means.push_back(mean);
  }
  std::vector<Shape> shapes;
  for (const Mean& mean : means) shapes.push_back(mean.shape);
  return shapes;
}

// The second half of a layer in single steps, because no backend gives away what happens between
// gate and down.
class OpenMlpHalf {
 public:
  OpenMlpHalf(LayerwisePass& pass, const io::ModelConfig& config,
              const model::LayerWeights& weights, const ops::Backend& backend)
      : pass_(pass),
        backend_(backend),
        eps_(static_cast<float>(config.rms_norm_eps)),
        norm_(static_cast<size_t>(weights.post_attention_norm.size())),
        neurons_(weights.mlp.neurons()),
        gate_(backend.make_linear(alone(weights.mlp.gate, weights.mlp))),
        up_(backend.make_linear(alone(weights.mlp.up, weights.mlp))),
        down_(backend.make_linear(weights.mlp.down)) {
    to_floats(weights.post_attention_norm, 0, weights.post_attention_norm.size(), norm_.data());
  }

  void apply(MutableMatrixView hidden) {
    const int64_t inner = pass_.sum(kNeurons).rows();
    Matrix input(hidden.rows, hidden.columns), gate(hidden.rows, inner), up(hidden.rows, inner);
    // Beyond the neurons that a narrower layer has, all is 0.
    const MutableMatrixView neurons(gate.data(), gate.rows(), neurons_, inner);
    backend_.rms_norm(hidden, norm_, eps_, input.view());
    gate_->apply(input.view(), neurons);
    up_->apply(input.view(), {up.data(), up.rows(), neurons_, inner});
    activate(gate, up);
    add_gram(input.view(), pass_.sum(kIn));
    add_gram(gate.view(), pass_.sum(kNeurons));
    down_->apply(neurons, input.view());
    backend_.add(input.view(), hidden);
  }

 private:
  // A matrix with the pivots that gate and up share as its own.
  static ops::LinearWeight alone(ops::LinearWeight matrix, const ops::MlpWeight& mlp) {
    if (!mlp.in.empty()) matrix.in = mlp.in;
    return matrix;
  }

  // gate = silu(gate) * up. A range of neurons belongs to one thread, so that the sums are the same
  // with any number.
  void activate(Matrix& gate, const Matrix& up) {
    double* const gate_slope = pass_.sum(kGateSlope).data();
    double* const up_slope = pass_.sum(kUpSlope).data();
    parallel_ranges(gate.columns(), [&](int64_t first, int64_t last) {
      for (int64_t i = 0; i < gate.rows(); ++i) {
        float* const h = gate.row(i);
        const float* const u = up.row(i);
        for (int64_t j = first; j < last; ++j) {
          const float g = h[j], sigmoid = 1.0f / (1.0f + std::exp(-g)), silu = g * sigmoid;
          const double of_gate = u[j] * sigmoid * (1.0f + g * (1.0f - sigmoid));
          gate_slope[j] += of_gate * of_gate;
          up_slope[j] += double{silu} * silu;
          h[j] = silu * u[j];
        }
      }
    });
  }

  LayerwisePass& pass_;
  const ops::Backend& backend_;
  float eps_;
  std::vector<float> norm_;
  int64_t neurons_;
  std::unique_ptr<ops::Linear> gate_, up_, down_;
};

double mean_squares(ConstMatrixView rows) {
  double sum = 0.0;
  for (int64_t i = 0; i < rows.rows; ++i) {
    for (int64_t j = 0; j < rows.columns; ++j) sum += double{rows.row(i)[j]} * rows.row(i)[j];
  }
  return sum / static_cast<double>(rows.columns);
}

// Of the pass's sums as many as there are means, from the `first` on.
Status write_sums(LayerwisePass& pass, const fs::path& path, const std::vector<Mean>& means,
                  size_t first, int64_t tokens, const std::string& source) {
  std::vector<DoubleMatrix*> sums;
  for (size_t i = 0; i < means.size(); ++i) sums.push_back(&pass.sum(first + i));
  return write_means(path, means, sums, tokens, source);
}

// What the LM head reads, once the last layer is through.
class HeadInput {
 public:
  static Result<HeadInput> load(const io::Checkpoint& checkpoint, const io::ModelConfig& config) {
    NMM_ASSIGN(
        const TensorView norm,
        checkpoint.require(model::tensor_prefix(checkpoint) + "norm.weight", {config.hidden_size}));
    HeadInput input;
    input.norm_.resize(static_cast<size_t>(norm.size()));
    to_floats(norm, 0, norm.size(), input.norm_.data());
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
  return !fs::exists(LayerwisePass::state_path(work, kStatisticsPass), ignored);
}

// One layer at a time.
class StatisticsPass {
 public:
  StatisticsPass(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                 const ops::Backend& backend, const fs::path& work, Gathered what,
                 LayerwisePass& pass)
      : checkpoint_(checkpoint),
        config_(config),
        backend_(backend),
        work_(work),
        all_(what == Gathered::kAllLinears),
        pass_(pass),
        rotary_(model::rotary_embedding(config)),
        recorder_(backend, {adding_to(kAttention), adding_to(kMixed), adding_to(kHeads)}) {}

  Status visit_layer(ops::KvCache& cache) {
    NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint_, config_, pass_.layer()));
    NMM_ASSIGN(const HeadInput head, HeadInput::load(checkpoint_, config_));
    const ops::Backend& backend = all_ ? recorder_ : backend_;
    const model::DecoderLayer layer(config_, 0, weights, backend);
    OpenMlpHalf mlp(pass_, config_, weights, backend_);
    return pass_.visit_sequences([&](size_t sequence) {
      const MutableMatrixView hidden = pass_.hidden(0, sequence);
      const ops::SequenceRows rows = {&cache, hidden.rows};
      layer.attention_half(hidden, rotary_, std::span(&rows, 1));
      mlp.apply(hidden);
      pass_.sum(kResidual)(0, 0) += mean_squares(hidden);
      if (all_ && last_layer()) head.add_to(pass_.sum(kHead), backend_, hidden);
    });
  }

  Status write_layer(int64_t tokens) {
    const int64_t layer = pass_.layer();
    const fs::path& folder = checkpoint_.folder();
    NMM_TRY(write_sums(pass_, statistics_path(work_, layer), mlp_means(config_), kIn, tokens,
                       fmt::format("{}: the MLP of layer {}", folder.string(), layer)));
    if (!all_) return {};
    NMM_TRY(write_sums(pass_, attention_path(work_, layer), attention_means(config_), kAttention,
                       tokens, fmt::format("{}: attention of layer {}", folder.string(), layer)));
    if (!last_layer()) return {};
    return write_sums(pass_, head_path(work_), head_means(config_), kHead, tokens,
                      fmt::format("{}: the last layer", folder.string()));
  }

 private:
  AttentionRecorder::Seen adding_to(size_t sum) {
    return [this, sum](ConstMatrixView rows) { add_gram(rows, pass_.sum(sum)); };
  }
  bool last_layer() const { return pass_.layer() == config_.num_hidden_layers - 1; }

  const io::Checkpoint& checkpoint_;
  const io::ModelConfig& config_;
  const ops::Backend& backend_;
  const fs::path& work_;
  bool all_;
  LayerwisePass& pass_;
  ops::RotaryEmbedding rotary_;
  AttentionRecorder recorder_;
};

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
  return check_means(statistics_path(work, layer), mlp_means(config));
}

Status check_linear_statistics(const fs::path& work, const io::ModelConfig& config) {
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    NMM_TRY(check_means(attention_path(work, layer), attention_means(config)));
  }
  return check_means(head_path(work), head_means(config));
}

Status gather_statistics(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                         const ops::Backend& backend, const CalibrationSequences& text,
                         const fs::path& work, Gathered what, Progress& progress) {
  if (all_gathered(config, work, what)) return {};
  const LayerwisePass::Settings settings = {
      .name = kStatisticsPass, .label = "calibrating", .sums = sum_shapes(config, what)};
  NMM_ASSIGN(LayerwisePass pass,
             LayerwisePass::open(checkpoint, config, text, work, settings, progress));
  StatisticsPass layers(checkpoint, config, backend, work, what, pass);
  // One layer is in it at a time, as layer 0.
  const auto cache =
      backend.make_kv_cache({1, config.num_key_value_heads, config.head_dim, text.longest()});
  while (!pass.done()) {
    NMM_TRY(layers.visit_layer(*cache));
    NMM_TRY(layers.write_layer(text.origin.tokens));
    NMM_TRY(pass.next_layer());
  }
  return {};
}

}  // namespace neuronmm::compress
