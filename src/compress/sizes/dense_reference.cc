#include "compress/sizes/dense_reference.h"

#include <algorithm>
#include <utility>

#include "base/parallel.h"
#include "compress/statistics/normed_mlp.h"
#include "model/rope.h"
#include "ops/divergence.h"

namespace neuronmm::compress {
namespace {

// The number of tokens whose logits of the changed model are in memory at a time. Assumed.
constexpr int64_t kReferencePiece = 256;

// Returns the number of rows whose logits fit into `bytes`, in whole pieces unless all fit.
int64_t kept_rows(int64_t rows, int64_t vocab_size, int64_t bytes) {
  const int64_t most = bytes / (vocab_size * static_cast<int64_t>(sizeof(float)));
  return rows <= most ? rows : most / kReferencePiece * kReferencePiece;
}

}  // namespace

// Rows are computed in parallel and added up in order, so the result does not depend on the number
// of threads.
double mean_divergence(ConstMatrixView dense, ConstMatrixView other) {
  std::vector<double> rows(static_cast<size_t>(dense.rows));
  parallel_for(dense.rows, [&](int64_t i) {
    const auto columns = static_cast<size_t>(dense.columns);
    rows[static_cast<size_t>(i)] =
        ops::kl_divergence({dense.row(i), columns}, {other.row(i), columns});
  });
  double sum = 0;
  for (const double row : rows) sum += row;
  return sum / static_cast<double>(dense.rows);
}

Result<EmbeddedSequences> embed_sequences(
    const CompressionInputs& inputs, const std::vector<std::vector<text::TokenId>>& sequences) {
  const io::ModelConfig& config = inputs.config;
  NMM_ASSIGN(
      const TensorView table,
      inputs.checkpoint.require(model::tensor_prefix(inputs.checkpoint) + "embed_tokens.weight",
                                {config.vocab_size, config.hidden_size}));
  int64_t rows = 0;
  for (const auto& sequence : sequences) rows += std::ssize(sequence);
  EmbeddedSequences embedded;
  embedded.hidden = Matrix(rows, config.hidden_size);
  rows = 0;
  for (const auto& sequence : sequences) {
    const int64_t length = std::ssize(sequence);
    model::embed(table, sequence, config.embedding_scale,
                 embedded.hidden.view().row_range(rows, length));
    rows += length;
    const auto& cache = embedded.caches.emplace_back(
        inputs.backend.make_kv_cache({1, config.num_key_value_heads, config.head_dim, length}));
    model::begin_sequence(config, length, *cache);
    embedded.batch.push_back({cache.get(), length});
  }
  return embedded;
}

Result<DenseReference> DenseReference::run(const CompressionInputs& inputs,
                                           const std::vector<std::vector<text::TokenId>>& sequences,
                                           int64_t kept_logit_bytes, int64_t stride) {
  const io::ModelConfig& config = inputs.config;
  DenseReference reference(inputs);
  reference.stride_ = stride;
  reference.rotary_ = model::RotaryTables(config);
  NMM_ASSIGN(EmbeddedSequences embedded, embed_sequences(inputs, sequences));
  reference.caches_ = std::move(embedded.caches);
  reference.batch_ = std::move(embedded.batch);
  Matrix hidden = std::move(embedded.hidden);
  reference.embedded_ = hidden;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    NMM_ASSIGN(auto weights, model::layer_weights(inputs.checkpoint, config, layer));
    const auto& packed = reference.layers_.emplace_back(config, 0, weights, inputs.backend);
    packed.attention_half(hidden.view(), reference.rotary_, reference.batch_);
    reference.residuals_.push_back(hidden);
    reference.weights_.push_back(weights);
    reference.add_mlp(layer, weights.mlp, hidden);
    inputs.checkpoint.release_pages();
  }
  NMM_ASSIGN(reference.head_, model::LmHead::load(inputs.checkpoint, config, inputs.backend));
  inputs.checkpoint.release_pages();
  reference.last_ = reference.compared_rows(std::move(hidden));
  const int64_t kept = kept_rows(reference.last_.rows(), config.vocab_size, kept_logit_bytes);
  if (kept > 0) reference.logits_ = reference.own_logits(0, kept);
  return reference;
}

void DenseReference::add_mlp(int64_t layer, const ops::MlpWeight& mlp, Matrix& residual) const {
  const model::LayerWeights& around = weights_[static_cast<size_t>(layer)];
  NormedMlp(inputs_->config, around, mlp, inputs_->backend).add_to(residual.view());
}

double DenseReference::divergence(Matrix hidden, const ops::Linear* projection) const {
  double sum = 0.0;
  for (int64_t row = 0; row < hidden.rows(); row += kReferencePiece) {
    const int64_t count = std::min(kReferencePiece, hidden.rows() - row);
    const MutableMatrixView rows = hidden.view().row_range(row, count);
    const Matrix other =
        projection == nullptr ? head_->logits(rows) : head_->logits(rows, *projection);
    const Matrix again = row < logits_.rows() ? Matrix() : own_logits(row, count);
    const ConstMatrixView own =
        row < logits_.rows() ? logits_.view().row_range(row, count) : again.view();
    sum += static_cast<double>(count) * mean_divergence(own, other.view());
  }
  return sum / static_cast<double>(hidden.rows());
}

Matrix DenseReference::compared_rows(Matrix hidden) const {
  if (stride_ == 1) return hidden;
  Matrix rows((hidden.rows() + stride_ - 1) / stride_, hidden.columns());
  for (int64_t i = 0; i < rows.rows(); ++i) {
    std::copy_n(hidden.row(i * stride_), hidden.columns(), rows.data() + i * rows.columns());
  }
  return rows;
}

Matrix DenseReference::own_logits(int64_t row, int64_t count) const {
  Matrix hidden(count, last_.columns());
  std::copy_n(last_.row(row), count * last_.columns(), hidden.data());
  return head_->logits(hidden.view());
}

double DenseReference::divergence_with(int64_t layer, const ops::MlpWeight& mlp) const {
  Matrix hidden = residuals_[static_cast<size_t>(layer)];
  add_mlp(layer, mlp, hidden);
  return divergence_after(layer, std::move(hidden));
}

double DenseReference::divergence_after(int64_t layer, Matrix hidden) const {
  for (size_t later = static_cast<size_t>(layer) + 1; later < layers_.size(); ++later) {
    layers_[later].forward(hidden.view(), rotary_, batch_);
  }
  return divergence(compared_rows(std::move(hidden)));
}

double DenseReference::divergence_with_attention(int64_t layer,
                                                 const model::LayerWeights& weights) const {
  Matrix hidden = layer == 0 ? embedded_ : residuals_[static_cast<size_t>(layer) - 1];
  if (layer > 0) add_mlp(layer - 1, this->weights(layer - 1).mlp, hidden);
  model::LayerWeights changed = weights;
  changed.mlp = this->weights(layer).mlp;
  const model::DecoderLayer changed_layer(inputs_->config, 0, changed, inputs_->backend);
  changed_layer.forward(hidden.view(), rotary_, batch_);
  return divergence_after(layer, std::move(hidden));
}

double DenseReference::divergence_with_head(const ops::Linear& head) const {
  return divergence(last_, &head);
}

double DenseReference::divergence_with_table(const ops::Linear& head, Matrix embedded) const {
  run_embedded(embedded.view());
  return divergence(compared_rows(std::move(embedded)), &head);
}

double DenseReference::divergence_with_embeddings(Matrix embedded) const {
  run_embedded(embedded.view());
  return divergence(compared_rows(std::move(embedded)));
}

void DenseReference::run_embedded(MutableMatrixView embedded) const {
  const double scale = inputs_->config.embedding_scale;
  if (scale != 1.0) inputs_->backend.scale(static_cast<float>(scale), embedded);
  for (const model::DecoderLayer& layer : layers_) {
    layer.forward(embedded, rotary_, batch_);
  }
}

Result<double> DenseReference::divergence_of(const WithMlp& with_mlp) const {
  Matrix hidden = residuals_.at(0);
  for (int64_t layer = 0; layer < std::ssize(layers_); ++layer) {
    if (layer > 0) {
      layers_[static_cast<size_t>(layer)].attention_half(hidden.view(), rotary_, batch_);
    }
    NMM_TRY(with_mlp(layer, [&](const ops::MlpWeight& mlp) { add_mlp(layer, mlp, hidden); }));
  }
  return divergence(compared_rows(std::move(hidden)));
}

}  // namespace neuronmm::compress
