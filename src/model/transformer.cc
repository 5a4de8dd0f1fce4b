#include "model/transformer.h"

#include <algorithm>

namespace neuronmm::model {
namespace {

std::vector<float> to_vector(const TensorView& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.size()));
  if (!tensor.empty()) to_floats(tensor, 0, tensor.size(), values.data());
  return values;
}

Result<ops::LinearWeight> lm_head_weight(const io::Checkpoint& checkpoint,
                                         const io::ModelConfig& config,
                                         const TensorView& embedding) {
  ops::LinearWeight weight;
  if (config.tie_word_embeddings) {
    weight.w_t = embedding;
    return weight;
  }
  if (!checkpoint.has("lm_head.weight")) {
    return fail(
        "{}: expected tensor lm_head.weight because config.json has tie_word_embeddings false, "
        "found none",
        checkpoint.folder().string());
  }
  NMM_ASSIGN(weight.w_t,
             checkpoint.require("lm_head.weight", {config.vocab_size, config.hidden_size}));
  return weight;
}

}  // namespace

DecoderLayer::DecoderLayer(const io::ModelConfig& config, int64_t index,
                           const LayerWeights& weights, const ops::Backend& backend)
    : config_(config),
      index_(index),
      backend_(backend),
      input_norm_(to_vector(weights.input_norm)),
      post_attention_norm_(to_vector(weights.post_attention_norm)),
      q_norm_(to_vector(weights.q_norm)),
      k_norm_(to_vector(weights.k_norm)),
      q_(backend.make_linear(weights.q)),
      k_(backend.make_linear(weights.k)),
      v_(backend.make_linear(weights.v)),
      o_(backend.make_linear(weights.o)),
      mlp_(backend.make_mlp(weights.mlp)) {}

void DecoderLayer::forward(MutableMatrixView hidden, std::span<const float> inverse_frequencies,
                           ops::KvCache& cache, MlpObserver* observer) const {
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  Matrix normed(hidden.rows, hidden.columns), output(hidden.rows, hidden.columns);

  backend_.rms_norm(hidden, input_norm_, eps, normed.view());
  attend(normed.view(), inverse_frequencies, cache, output.view());
  backend_.add(output.view(), hidden);

  backend_.rms_norm(hidden, post_attention_norm_, eps, normed.view());
  mlp_->apply(normed.view(), output.view());
  if (observer != nullptr) observer->on_mlp(index_, normed.view(), output.view());
  backend_.add(output.view(), hidden);
}

void DecoderLayer::attend(ConstMatrixView x, std::span<const float> inverse_frequencies,
                          ops::KvCache& cache, MutableMatrixView y) const {
  const int64_t head_dim = config_.head_dim;
  const int64_t heads = config_.num_attention_heads, kv_heads = config_.num_key_value_heads;
  Matrix q(x.rows, heads * head_dim), k(x.rows, kv_heads * head_dim), v(x.rows, k.columns());
  q_->apply(x, q.view());
  k_->apply(x, k.view());
  v_->apply(x, v.view());
  if (config_.qk_norm) {  // every head is a row of its own
    const auto eps = static_cast<float>(config_.rms_norm_eps);
    const MutableMatrixView q_heads(q.data(), x.rows * heads, head_dim);
    const MutableMatrixView k_heads(k.data(), x.rows * kv_heads, head_dim);
    backend_.rms_norm(q_heads, q_norm_, eps, q_heads);
    backend_.rms_norm(k_heads, k_norm_, eps, k_heads);
  }
  backend_.rope(q.view(), head_dim, cache.length(), inverse_frequencies);
  backend_.rope(k.view(), head_dim, cache.length(), inverse_frequencies);
  Matrix mixed(x.rows, q.columns());
  backend_.attention({heads, kv_heads, head_dim, config_.sliding_window}, index_, q.view(),
                     k.view(), v.view(), cache, mixed.view());
  o_->apply(mixed.view(), y);
}

Result<Transformer> Transformer::load(const std::filesystem::path& folder,
                                      const ops::Backend& backend) {
  NMM_ASSIGN(auto config, io::ModelConfig::load(folder / "config.json"));
  NMM_ASSIGN(auto checkpoint, io::Checkpoint::open(folder));
  return load(std::move(config), std::move(checkpoint), backend);
}

Result<Transformer> Transformer::load(io::ModelConfig config, io::Checkpoint checkpoint,
                                      const ops::Backend& backend) {
  Transformer model;
  model.config_ = std::make_unique<io::ModelConfig>(std::move(config));
  model.checkpoint_ = std::make_unique<io::Checkpoint>(std::move(checkpoint));
  model.backend_ = &backend;
  NMM_TRY(model.pack());
  return model;
}

Status Transformer::pack() {
  const io::ModelConfig& config = *config_;
  const std::string prefix = tensor_prefix(*checkpoint_);
  NMM_ASSIGN(embedding_, checkpoint_->require(prefix + "embed_tokens.weight",
                                              {config.vocab_size, config.hidden_size}));
  NMM_ASSIGN(const auto norm, checkpoint_->require(prefix + "norm.weight", {config.hidden_size}));
  NMM_ASSIGN(const auto head, lm_head_weight(*checkpoint_, config, embedding_));
  // All names and shapes are checked before the first (slow) packing.
  std::vector<LayerWeights> layers;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    NMM_ASSIGN(auto weights, layer_weights(*checkpoint_, config, layer));
    layers.push_back(std::move(weights));
  }

  inverse_frequencies_ = rope_inverse_frequencies(config);
  final_norm_ = to_vector(norm);
  lm_head_ = backend_->make_linear(head);
  for (size_t layer = 0; layer < layers.size(); ++layer)
    layers_.emplace_back(config, static_cast<int64_t>(layer), layers[layer], *backend_);
  return {};
}

std::unique_ptr<ops::KvCache> Transformer::make_cache(int64_t capacity_tokens) const {
  return backend_->make_kv_cache({config_->num_hidden_layers, config_->num_key_value_heads,
                                  config_->head_dim, capacity_tokens});
}

Matrix Transformer::forward(std::span<const TokenId> tokens, ops::KvCache& cache, Logits which,
                            MlpObserver* observer) const {
  const auto count = static_cast<int64_t>(tokens.size());
  NMM_CHECK(count > 0 && cache.length() + count <= cache.shape().capacity_tokens);
  Matrix hidden(count, config_->hidden_size);
  embed(embedding_, tokens, hidden.view());
  for (const DecoderLayer& layer : layers_)
    layer.forward(hidden.view(), inverse_frequencies_, cache, observer);
  cache.set_length(cache.length() + count);

  const int64_t wanted = which == Logits::kLast ? 1 : count;
  const MutableMatrixView last = hidden.view().row_range(count - wanted, wanted);
  backend_->rms_norm(last, final_norm_, static_cast<float>(config_->rms_norm_eps), last);
  Matrix logits(wanted, config_->vocab_size);
  lm_head_->apply(last, logits.view());
  return logits;
}

Status check_token_ids(std::span<const TokenId> tokens, const io::ModelConfig& config) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < config.vocab_size) continue;
    return fail("expected token ids in [0, {}) (the model's vocab_size), found {} at position {}",
                config.vocab_size, tokens[i], i);
  }
  return {};
}

void embed(const TensorView& table, std::span<const TokenId> tokens, MutableMatrixView out) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    NMM_CHECK(tokens[i] >= 0 && tokens[i] < table.rows());
    to_floats(table, tokens[i] * table.columns(), table.columns(),
              out.row(static_cast<int64_t>(i)));
  }
}

}  // namespace neuronmm::model
