#include "model/transformer.h"

#include <algorithm>
#include <limits>

#include "base/freed_memory.h"
#include "base/pieces.h"
#include "base/scratch_matrix.h"
#include "io/model_folder.h"
#include "model/rope.h"
#include "model/weight_reader.h"
#include "ops/limited_experts.h"

namespace neuronmm::model {
namespace {

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

ops::HeadNorms head_norms(const io::ModelConfig& config) {
  if (config.qk_norm == io::QkNorm::kWholeWidth) return ops::HeadNorms::kWholeWidth;
  return config.qk_norm_after_rope ? ops::HeadNorms::kAfterRope : ops::HeadNorms::kBeforeRope;
}

std::vector<float> sinks_of(const LayerWeights& weights) {
  std::vector<float> sinks;
  if (weights.sinks.empty()) return sinks;
  sinks.resize(static_cast<size_t>(weights.sinks.size()));
  to_floats(weights.sinks, 0, weights.sinks.size(), sinks.data());
  return sinks;
}

std::unique_ptr<ops::Mlp> make_mlp(const LayerWeights& weights, const ops::Backend& backend) {
  return weights.mixture ? backend.make_mixture(*weights.mixture) : backend.make_mlp(weights.mlp);
}

// Tells the backend of the mixtures before any layer is made.
void plan_experts(const io::Checkpoint& checkpoint, std::span<const LayerWeights> layers,
                  const ops::Backend& backend) {
  const auto* const limited = dynamic_cast<const ops::LimitedExperts*>(&backend);
  if (limited == nullptr) return;
  std::vector<const ops::MixtureWeight*> mixtures;
  int64_t expert_bytes = 0;
  for (const LayerWeights& layer : layers) {
    if (!layer.mixture) continue;
    mixtures.push_back(&*layer.mixture);
    for (const ops::MlpWeight& expert : layer.mixture->experts) {
      for (const ops::LinearWeight* const linear : {&expert.gate, &expert.up, &expert.down}) {
        expert_bytes += linear->stored_bytes();
      }
    }
  }
  if (mixtures.empty()) return;
  limited->plan_experts(mixtures, checkpoint.size_bytes() - expert_bytes);
}

// Norm gains are a few thousand floats and are copied. The backend packs the matrices.
ops::AttentionWeight attention_weight(const io::ModelConfig& config, const LayerWeights& weights) {
  ops::AttentionShape shape = attention_shape(config, weights.layer);
  shape.sinks = sinks_of(weights);
  return {.shape = std::move(shape),
          .q = weights.q,
          .k = weights.k,
          .v = weights.v,
          .o = weights.o,
          .q_norm = norm_gains(weights.q_norm, config),
          .k_norm = norm_gains(weights.k_norm, config),
          .norms = head_norms(config),
          .norm_eps = static_cast<float>(config.rms_norm_eps),
          .temperature_beta = config.query_temperature.beta,
          .temperature_context = config.query_temperature.original_context,
          .clamp = static_cast<float>(config.qkv_clamp)};
}

}  // namespace

ops::AttentionShape attention_shape(const io::ModelConfig& config, int64_t layer) {
  return {.num_attention_heads = config.num_attention_heads,
          .num_key_value_heads = config.num_key_value_heads,
          .head_dim = config.head_dim,
          .sliding_window = config.attention_of(layer).window,
          .score_scale = config.score_scale,
          .score_cap = config.score_cap};
}

// A norm's output may be scaled by its gains for nothing.
SubLayer::SubLayer(const io::ModelConfig& config, const TensorView& input_norm,
                   const TensorView& output_norm)
    : eps_(static_cast<float>(config.rms_norm_eps)),
      residual_scale_(static_cast<float>(config.residual_scale)),
      input_gains_(norm_gains(input_norm, config)),
      output_gains_(norm_gains(output_norm, config)) {
  if (output_gains_.empty() || residual_scale_ == 1.0f) return;
  for (float& gain : output_gains_) gain *= residual_scale_;
  residual_scale_ = 1.0f;
}

ConstMatrixView SubLayer::input(const ops::Backend& backend, ConstMatrixView x,
                                MutableMatrixView normed) const {
  if (input_gains_.empty()) return x;
  backend.rms_norm(x, input_gains_, eps_, normed);
  return normed;
}

void SubLayer::finish(const ops::Backend& backend, MutableMatrixView output) const {
  if (!output_gains_.empty()) backend.rms_norm(output, output_gains_, eps_, output);
  if (residual_scale_ != 1.0f) backend.scale(residual_scale_, output);
}

DecoderLayer::DecoderLayer(const io::ModelConfig& config, int64_t index,
                           const LayerWeights& weights, const ops::Backend& backend)
    : index_(index),
      backend_(backend),
      rope_(config.attention_of(weights.layer).rope),
      around_attention_(config, weights.input_norm, weights.attention_output_norm),
      around_mlp_(config, weights.post_attention_norm, weights.mlp_output_norm),
      attention_(backend.make_attention(attention_weight(config, weights))),
      mlp_(make_mlp(weights, backend)) {}

void DecoderLayer::forward(MutableMatrixView hidden, const RotaryTables& rotary, ops::Batch batch,
                           MlpObserver* observer) const {
  attention_half(hidden, rotary, batch);
  const ScratchMatrix normed(hidden.rows, hidden.columns), output(hidden.rows, hidden.columns);
  const ConstMatrixView input = around_mlp_.input(backend_, hidden, normed.view());
  mlp_->apply(input, output.view());
  // The observer sees the MLP's input and its output before the residual is added.
  if (observer != nullptr) observer->on_mlp(index_, input, output.view());
  around_mlp_.finish(backend_, output.view());
  backend_.add(output.view(), hidden);
}

// Compression runs this half without the MLP, which it replaces.
void DecoderLayer::attention_half(MutableMatrixView hidden, const RotaryTables& rotary,
                                  ops::Batch batch) const {
  const ScratchMatrix normed(hidden.rows, hidden.columns), output(hidden.rows, hidden.columns);
  const ConstMatrixView input = around_attention_.input(backend_, hidden, normed.view());
  attention_->apply(input, rotary.at(rope_), index_, batch, output.view());
  around_attention_.finish(backend_, output.view());
  backend_.add(output.view(), hidden);
}

Result<std::vector<LayerWeights>> supported_layers(const io::Checkpoint& checkpoint,
                                                   const io::ModelConfig& config,
                                                   const ops::Backend& backend) {
  std::vector<LayerWeights> layers;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    NMM_ASSIGN(auto weights, layer_weights(checkpoint, config, layer));
    const Status supported = weights.mixture ? backend.supports_mixture(*weights.mixture)
                                             : backend.supports(weights.mlp);
    if (!supported.ok()) {
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
  head.logit_cap_ = static_cast<float>(config.logit_cap);
  head.norm_ = head.head_norm_ = norm_gains(norm, config);
  if (config.logit_divisor != 1.0) {
    for (float& gain : head.head_norm_) gain /= static_cast<float>(config.logit_divisor);
  }
  head.projection_ = backend.make_lm_head(weight);
  return head;
}

Matrix LmHead::logits(MutableMatrixView hidden) const { return logits(hidden, *projection_); }

void LmHead::normalize(MutableMatrixView hidden) const {
  backend_->rms_norm(hidden, norm_, eps_, hidden);
}

// The cap is applied to whole logits, because log sums of logits without it would be wrong.
Predictions LmHead::predict(MutableMatrixView hidden,
                            std::span<const ops::WantedLogits> wanted) const {
  if (wanted.empty() || logit_cap_ != 0.0f) return {.logits = logits(hidden)};
  backend_->rms_norm(hidden, head_norm_, eps_, hidden);
  Predictions predictions = {.logits = Matrix(hidden.rows, vocab_size_)};
  predictions.log_sums = projection_->apply_wanted(hidden, wanted, predictions.logits.view());
  return predictions;
}

Matrix LmHead::logits(MutableMatrixView hidden, const ops::Linear& projection) const {
  backend_->rms_norm(hidden, head_norm_, eps_, hidden);
  Matrix logits(hidden.rows, vocab_size_);
  projection.apply(hidden, logits.view());
  if (logit_cap_ != 0.0f) backend_->soft_cap(logit_cap_, logits.view());
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
  // The texts that were made of a GGUF file's metadata are freed by now.
  if (checkpoint_->mounted()) return_freed_memory();
  const io::ModelConfig& config = *config_;
  const std::string prefix = tensor_prefix(*checkpoint_);
  NMM_ASSIGN(embedding_, require_weight(*checkpoint_, config, prefix + "embed_tokens.weight",
                                        {config.vocab_size, config.hidden_size}));
  NMM_ASSIGN(const auto layers, supported_layers(*checkpoint_, config, parts_backend()));
  plan_experts(*checkpoint_, layers, parts_backend());
  rotary_ = RotaryTables(config);
  long_rope_from_ = config.long_rope_from();
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
  if (long_rope_from_ < std::numeric_limits<int64_t>::max()) {
    for (const SequenceTokens& sequence : batch) choose_rope(sequence);
  }
  return run(batch, observer);
}

// Sets the table that the sequence turns by, and remembers its tokens.
void Transformer::choose_rope(const SequenceTokens& sequence) const {
  ops::KvCache& cache = *sequence.cache;
  const int64_t length = cache.length(), total = length + std::ssize(sequence.tokens);
  const bool is_long = std::max(total, cache.expected_tokens()) > long_rope_from_;
  std::vector<int32_t>& known = cache.tokens();
  if (std::ssize(known) > length) known.resize(static_cast<size_t>(length));
  if (length > 0 && is_long != cache.long_rope()) compute_anew(cache, is_long);
  cache.set_long_rope(is_long);
  if (std::ssize(known) == length) {
    known.insert(known.end(), sequence.tokens.begin(), sequence.tokens.end());
  }
}

// Blocks that other caches share keep what they hold, and this cache gets new ones.
void Transformer::compute_anew(ops::KvCache& cache, bool is_long) const {
  const std::vector<int32_t> tokens = cache.tokens();
  NMM_CHECK(std::ssize(tokens) == cache.length());
  for (int64_t i = 0; i < std::ssize(cache.blocks()); ++i) {
    const bool shared = cache.blocks()[static_cast<size_t>(i)].use_count() > 1;
    if (shared) cache.set_block(i, cache.make_block());
  }
  cache.set_length(0);
  cache.set_long_rope(is_long);
  const SequenceTokens all = {tokens, &cache, Logits::kNone};
  run(std::span(&all, 1), nullptr);
}

Predictions Transformer::run(std::span<const SequenceTokens> batch, MlpObserver* observer) const {
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
    embed(embedding_, sequence.tokens, config_->embedding_scale,
          hidden.view().row_range(first, count));
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

void begin_sequence(const io::ModelConfig& config, int64_t tokens, ops::KvCache& cache) {
  cache.set_long_rope(tokens > config.long_rope_from());
}

int64_t same_rope_tokens(const io::ModelConfig& config, int64_t length) {
  const int64_t from = config.long_rope_from();
  const bool turns_short = length + 1 <= from;
  return turns_short ? from - length : std::numeric_limits<int64_t>::max();
}

Status check_token_ids(std::span<const TokenId> tokens, const io::ModelConfig& config) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < config.vocab_size) continue;
    return fail("expected token ids in [0, {}) (the model's vocab_size), found {} at position {}",
                config.vocab_size, tokens[i], i);
  }
  return {};
}

void embed(const ops::WeightView& table, std::span<const TokenId> tokens, double scale,
           MutableMatrixView out) {
  constexpr int64_t kElementWork = 4;  // assumed: elements come from memory and are widened
  for (const TokenId token : tokens) NMM_CHECK(token >= 0 && token < table.rows());
  const auto embed_tokens = [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      to_floats(table, tokens[static_cast<size_t>(i)] * table.columns(), table.columns(),
                out.row(i));
      if (scale == 1.0) continue;
      for (int64_t j = 0; j < out.columns; ++j) out.row(i)[j] *= static_cast<float>(scale);
    }
  };
  for_each_piece(std::ssize(tokens), kElementWork * table.columns(), embed_tokens);
}

}  // namespace neuronmm::model
