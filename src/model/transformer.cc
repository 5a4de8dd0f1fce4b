#include "model/transformer.h"

#include <algorithm>

#include "base/pieces.h"
#include "base/scratch_matrix.h"
#include "io/model_folder.h"
#include "model/rope.h"
#include "model/weight_reader.h"

namespace neuronmm::model {
namespace {

// Returns the tensor's values, or nothing if the model has no such tensor.
std::vector<float> to_vector(const TensorView& tensor) {
  if (tensor.empty()) return {};
  std::vector<float> values(static_cast<size_t>(tensor.size()));
  to_floats(tensor, 0, tensor.size(), values.data());
  return values;
}

// Returns the weight of the LM head, which is the embedding table if the two are tied. Backends
// round its input twice (round_input_twice), because one rounding of it caused two fifths of
// SmolLM2's loss in int8 (docs/measurements/low_bits.md).
Result<ops::LinearWeight> lm_head_weight(const io::Checkpoint& checkpoint,
                                         const io::ModelConfig& config,
                                         const ops::WeightView& embedding) {
  ops::LinearWeight weight = {.round_input_twice = true};
  NMM_TRY(check_head(checkpoint, config));
  if (config.tie_word_embeddings) {
    weight.w_t = embedding;
    return weight;
  }
  NMM_ASSIGN(weight.w_t, require_weight(checkpoint, config, "lm_head.weight",
                                        {config.vocab_size, config.hidden_size}));
  return weight;
}

// Moves the rows that need logits to the front and returns their number. Only the last position of
// a prompt predicts something new. The vocabulary's matrix is the largest of the model, so
// multiplying all rows by it would be wasted.
int64_t move_wanted_rows(std::span<const SequenceTokens> batch, MutableMatrixView hidden) {
  int64_t wanted = 0, end = 0;
  for (const SequenceTokens& sequence : batch) {
    const int64_t first = end;
    end += std::ssize(sequence.tokens);
    if (sequence.logits == Logits::kNone) continue;
    for (int64_t row = sequence.logits == Logits::kAll ? first : end - 1; row < end; ++row) {
      if (row != wanted) std::copy_n(hidden.row(row), hidden.columns, hidden.row(wanted));
      ++wanted;
    }
  }
  return wanted;
}

// Returns a copy of the rows whose hidden states are wanted, before their norm.
Matrix copy_hidden_rows(std::span<const SequenceTokens> batch, ConstMatrixView hidden) {
  const auto count = [](const SequenceTokens& sequence) {
    return sequence.hidden == HiddenStates::kNone   ? int64_t{0}
           : sequence.hidden == HiddenStates::kLast ? int64_t{1}
                                                    : std::ssize(sequence.tokens);
  };
  int64_t rows = 0, end = 0;
  for (const SequenceTokens& sequence : batch) rows += count(sequence);
  Matrix copy(rows, hidden.columns);
  rows = 0;
  for (const SequenceTokens& sequence : batch) {
    end += std::ssize(sequence.tokens);
    for (int64_t row = end - count(sequence); row < end; ++row)
      std::copy_n(hidden.row(row), hidden.columns, copy.row(rows++));
  }
  return copy;
}

// Returns which logits each row that move_wanted_rows() keeps needs. The result is empty if every
// row needs all of them.
std::vector<ops::WantedLogits> wanted_of(std::span<const SequenceTokens> batch) {
  std::vector<ops::WantedLogits> wanted;
  bool all = true;
  for (const SequenceTokens& sequence : batch) {
    const int64_t rows = sequence.logits == Logits::kNone   ? 0
                         : sequence.logits == Logits::kLast ? 1
                                                            : std::ssize(sequence.tokens);
    NMM_CHECK(sequence.wanted.empty() || std::ssize(sequence.wanted) == rows);
    all = all && sequence.wanted.empty();
    wanted.insert(wanted.end(), sequence.wanted.begin(), sequence.wanted.end());
    if (sequence.wanted.empty()) wanted.resize(wanted.size() + static_cast<size_t>(rows));
  }
  if (all) wanted.clear();
  return wanted;
}

// Norm gains are a few thousand floats and are copied. The backend packs the matrices.
ops::AttentionWeight attention_weight(const io::ModelConfig& config, const LayerWeights& weights) {
  return {.shape = attention_shape(config),
          .q = weights.q,
          .k = weights.k,
          .v = weights.v,
          .o = weights.o,
          .q_norm = to_vector(weights.q_norm),
          .k_norm = to_vector(weights.k_norm),
          .norm_eps = static_cast<float>(config.rms_norm_eps)};
}

}  // namespace

ops::AttentionShape attention_shape(const io::ModelConfig& config) {
  return {config.num_attention_heads, config.num_key_value_heads, config.head_dim,
          config.sliding_window};
}

DecoderLayer::DecoderLayer(const io::ModelConfig& config, int64_t index,
                           const LayerWeights& weights, const ops::Backend& backend)
    : config_(config),
      index_(index),
      backend_(backend),
      input_norm_(to_vector(weights.input_norm)),
      post_attention_norm_(to_vector(weights.post_attention_norm)),
      attention_(backend.make_attention(attention_weight(config, weights))),
      mlp_(backend.make_mlp(weights.mlp)) {}

// Adds the two residuals: hidden += attention(norm(hidden)), then hidden += mlp(norm(hidden)).
void DecoderLayer::forward(MutableMatrixView hidden, const ops::RotaryEmbedding& rotary,
                           ops::Batch batch, MlpObserver* observer) const {
  attention_half(hidden, rotary, batch);
  const ScratchMatrix normed(hidden.rows, hidden.columns), output(hidden.rows, hidden.columns);
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  backend_.rms_norm(hidden, post_attention_norm_, eps, normed.view());
  mlp_->apply(normed.view(), output.view());
  // The observer sees the MLP's input and its output before the residual is added.
  if (observer != nullptr) observer->on_mlp(index_, normed.view(), output.view());
  backend_.add(output.view(), hidden);
}

// Compression runs this half without the MLP, which it replaces.
void DecoderLayer::attention_half(MutableMatrixView hidden, const ops::RotaryEmbedding& rotary,
                                  ops::Batch batch) const {
  const ScratchMatrix normed(hidden.rows, hidden.columns), output(hidden.rows, hidden.columns);
  backend_.rms_norm(hidden, input_norm_, static_cast<float>(config_.rms_norm_eps), normed.view());
  attention_->apply(normed.view(), rotary, index_, batch, output.view());
  backend_.add(output.view(), hidden);
}

Result<std::vector<LayerWeights>> supported_layers(const io::Checkpoint& checkpoint,
                                                   const io::ModelConfig& config,
                                                   const ops::Backend& backend) {
  std::vector<LayerWeights> layers;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    NMM_ASSIGN(auto weights, layer_weights(checkpoint, config, layer));
    if (const Status supported = backend.supports(weights.mlp); !supported.ok()) {
      return fail("{}: layer {}: {}", checkpoint.folder().string(), layer,
                  supported.error().message);
    }
    layers.push_back(std::move(weights));
  }
  return layers;
}

Result<LmHead> LmHead::load(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                            const ops::Backend& backend) {
  const std::string prefix = tensor_prefix(checkpoint);
  NMM_ASSIGN(const auto embedding,
             require_weight(checkpoint, config, prefix + "embed_tokens.weight",
                            {config.vocab_size, config.hidden_size}));
  NMM_ASSIGN(const auto norm, checkpoint.require(prefix + "norm.weight", {config.hidden_size}));
  NMM_ASSIGN(const auto weight, lm_head_weight(checkpoint, config, embedding));
  LmHead head;
  head.backend_ = &backend;
  head.eps_ = static_cast<float>(config.rms_norm_eps);
  head.vocab_size_ = config.vocab_size;
  head.norm_ = to_vector(norm);
  head.projection_ = backend.make_lm_head(weight);
  return head;
}

Matrix LmHead::logits(MutableMatrixView hidden) const { return logits(hidden, *projection_); }

void LmHead::normalize(MutableMatrixView hidden) const {
  backend_->rms_norm(hidden, norm_, eps_, hidden);
}

Predictions LmHead::predict(MutableMatrixView hidden,
                            std::span<const ops::WantedLogits> wanted) const {
  if (wanted.empty()) return {.logits = logits(hidden)};
  normalize(hidden);
  Predictions predictions = {.logits = Matrix(hidden.rows, vocab_size_)};
  predictions.log_sums = projection_->apply_wanted(hidden, wanted, predictions.logits.view());
  return predictions;
}

Matrix LmHead::logits(MutableMatrixView hidden, const ops::Linear& projection) const {
  normalize(hidden);
  Matrix logits(hidden.rows, vocab_size_);
  projection.apply(hidden, logits.view());
  return logits;
}

Result<Transformer> Transformer::load(const std::filesystem::path& folder,
                                      const ops::Backend& backend) {
  NMM_ASSIGN(io::ModelFolder model, io::open_model_to_run(folder));
  return load(std::move(model.config), std::move(model.checkpoint), backend);
}

Result<Transformer> Transformer::load(io::ModelConfig config, io::Checkpoint checkpoint,
                                      const ops::Backend& backend) {
  Transformer model;
  model.config_ = std::make_unique<io::ModelConfig>(std::move(config));
  model.checkpoint_ = std::make_unique<io::Checkpoint>(std::move(checkpoint));
  model.backend_ = &backend;
  NMM_TRY(model.open());
  return model;
}

// If the backend hosts models on several processes, loading succeeds in all of them or in none.
// The cast keeps ops::Backend free of functions that only a host needs.
Status Transformer::open() {
  const auto* const host = dynamic_cast<const ModelHost*>(backend_);
  if (host == nullptr) return pack();
  NMM_ASSIGN(hosted_, host->open_model(checkpoint_->folder(), *config_));
  return hosted_->opened(pack());
}

Status Transformer::pack() {
  if (parts_backend().rounds_foreign_weights()) checkpoint_->notify_conversion();
  const io::ModelConfig& config = *config_;
  const std::string prefix = tensor_prefix(*checkpoint_);
  NMM_ASSIGN(embedding_, require_weight(*checkpoint_, config, prefix + "embed_tokens.weight",
                                        {config.vocab_size, config.hidden_size}));
  NMM_ASSIGN(const auto layers, supported_layers(*checkpoint_, config, parts_backend()));
  rotary_ = rotary_embedding(config);
  NMM_ASSIGN(lm_head_, LmHead::load(*checkpoint_, config, parts_backend()));
  checkpoint_->release_pages();  // otherwise packed weights would be in memory twice
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    layers_.emplace_back(config, static_cast<int64_t>(layer), layers[layer], parts_backend());
    checkpoint_->release_pages();
  }
  return {};
}

// Rounding keys and values to bf16 costs far less than rounding weights does, whatever the dtype
// was before they were quantized (docs/measurements/low_bits.md).
std::unique_ptr<ops::KvCache> Transformer::make_cache(int64_t capacity_tokens) const {
  const bool rounded = embedding_.quantized() || embedding_.dtype == DType::kBF16 ||
                       embedding_.dtype == DType::kForeign;
  return make_cache(capacity_tokens,
                    parts_backend().cache_dtype(rounded ? DType::kBF16 : DType::kF32));
}

std::unique_ptr<ops::KvCache> Transformer::make_cache(int64_t capacity_tokens, DType dtype) const {
  return parts_backend().make_kv_cache({config_->num_hidden_layers, config_->num_key_value_heads,
                                        config_->head_dim, capacity_tokens, dtype});
}

void Transformer::copy_block(const ops::KvCache& from, const ops::KvCache& to,
                             int64_t index) const {
  const ops::KvBlock& source = from.blocks()[static_cast<size_t>(index)];
  const ops::KvBlock& target = to.blocks()[static_cast<size_t>(index)];
  std::copy_n(source.get(), from.block_words(), target.get());
  if (hosted_ != nullptr) hosted_->block_copied(source, target);
}

// forward() returns all logits of a row whatever `wanted` says.
Matrix Transformer::forward(std::span<const SequenceTokens> batch, MlpObserver* observer) const {
  std::vector<SequenceTokens> whole(batch.begin(), batch.end());
  for (SequenceTokens& sequence : whole) sequence.wanted.clear();
  return predict(whole, observer).logits;
}

Predictions Transformer::predict(std::span<const SequenceTokens> batch,
                                 MlpObserver* observer) const {
  if (hosted_ == nullptr) return compute(batch, observer);
  Predictions predictions;
  hosted_->run_pass(batch, [&] { predictions = compute(batch, observer); });
  return predictions;
}

Predictions Transformer::compute(std::span<const SequenceTokens> batch,
                                 MlpObserver* observer) const {
  int64_t total = 0;
  std::vector<ops::SequenceRows> rows;
  for (const SequenceTokens& sequence : batch) {
    const int64_t count = std::ssize(sequence.tokens);
    ops::KvCache& cache = *sequence.cache;
    NMM_CHECK(count > 0 && cache.length() + count <= cache.shape().capacity_tokens);
    rows.push_back({&cache, count});
    total += count;
  }
  const ScratchMatrix hidden(total, config_->hidden_size);
  int64_t first = 0;
  for (const SequenceTokens& sequence : batch) {
    const int64_t count = std::ssize(sequence.tokens);
    embed(embedding_, sequence.tokens, hidden.view().row_range(first, count));
    first += count;
  }
  for (const DecoderLayer& layer : layers_) layer.forward(hidden.view(), rotary_, rows, observer);
  // Layers write after the old length, which advances when all layers are done.
  for (const auto& [cache, count] : rows) cache->set_length(cache->length() + count);
  Matrix kept = copy_hidden_rows(batch, hidden.view());
  if (kept.rows() > 0) lm_head_->normalize(kept.view());
  const int64_t wanted = move_wanted_rows(batch, hidden.view());
  Predictions predictions;
  if (wanted > 0)
    predictions = lm_head_->predict(hidden.view().row_range(0, wanted), wanted_of(batch));
  predictions.hidden = std::move(kept);
  return predictions;
}

Matrix Transformer::forward(std::span<const TokenId> tokens, ops::KvCache& cache, Logits which,
                            MlpObserver* observer) const {
  const SequenceTokens sequence = {tokens, &cache, which};
  return forward(std::span(&sequence, 1), observer);
}

Status check_token_ids(std::span<const TokenId> tokens, const io::ModelConfig& config) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < config.vocab_size) continue;
    return fail("expected token ids in [0, {}) (the model's vocab_size), found {} at position {}",
                config.vocab_size, tokens[i], i);
  }
  return {};
}

void embed(const ops::WeightView& table, std::span<const TokenId> tokens, MutableMatrixView out) {
  constexpr int64_t kElementWork = 4;  // assumed: elements come from memory and are widened
  for (const TokenId token : tokens) NMM_CHECK(token >= 0 && token < table.rows());
  const auto embed_tokens = [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      to_floats(table, tokens[static_cast<size_t>(i)] * table.columns(), table.columns(),
                out.row(i));
    }
  };
  for_each_piece(std::ssize(tokens), kElementWork * table.columns(), embed_tokens);
}

}  // namespace neuronmm::model
