#pragma once
// The dense model on text, to hold models beside it that differ in some of their weights: how far
// their predictions are from its own, as the mean over tokens of KL(p_dense ‖ p_other) in nats.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "compress/inputs.h"
#include "compress/mlp_matrix.h"
#include "model/transformer.h"

namespace neuronmm::compress {

// Returns the mean over rows of KL(softmax(dense) ‖ softmax(other)), in fp64; both [M, vocab_size].
double mean_divergence(ConstMatrixView dense, ConstMatrixView other);

class DenseReference {
 public:
  // Of a vocabulary of 128 thousand, the logits of 2,000 tokens are as large as a small model.
  // Assumed.
  static constexpr int64_t kKeptLogitBytes = int64_t{512} << 20;

  // Runs the sequences through the dense model, each a context of its own. In memory: the packed
  // model, 4·H bytes per token and layer, and the logits of as many tokens as `kept_logit_bytes`
  // hold; those of others are computed again and again. `inputs` must outlive it.
  static Result<DenseReference> run(const CompressionInputs& inputs,
                                    const std::vector<std::vector<text::TokenId>>& sequences,
                                    int64_t kept_logit_bytes = kKeptLogitBytes);

  // Of the model with this MLP in the place of one layer's; later layers see what it makes.
  double divergence_with(int64_t layer, const ops::MlpWeight& mlp) const;
  // Of the model with this attention in the place of one layer's; weights.mlp is not read.
  double divergence_with_attention(int64_t layer, const model::LayerWeights& weights) const;
  // Of the model with this LM head [vocab_size, H], behind the dense layers.
  double divergence_with_head(const ops::Linear& head) const;
  // Of the model with another embedding table, which is its LM head, too. `embedded` [tokens, H]:
  // the table's rows of the tokens, sequence after sequence.
  double divergence_with_table(const ops::Linear& head, Matrix embedded) const;
  const model::LayerWeights& weights(int64_t layer) const {
    return weights_[static_cast<size_t>(layer)];
  }
  // Of the model with all MLPs replaced, each handed over when the layer runs.
  Result<double> divergence_of(const WithMlp& with_mlp) const;

 private:
  explicit DenseReference(const CompressionInputs& inputs) : inputs_(&inputs) {}
  void add_mlp(int64_t layer, const ops::MlpWeight& mlp, Matrix& residual) const;
  double divergence_after(int64_t layer, Matrix hidden) const;
  // Of the dense model, where they are not kept.
  Matrix own_logits(int64_t row, int64_t count) const;
  // `projection`: of the head; null: the dense one.
  double divergence(Matrix hidden, const ops::Linear* projection = nullptr) const;

  const CompressionInputs* inputs_;
  ops::RotaryEmbedding rotary_;
  std::vector<std::unique_ptr<ops::KvCache>> caches_;  // of one layer, as layer 0
  std::vector<ops::SequenceRows> batch_;
  std::vector<model::LayerWeights> weights_;
  std::vector<model::DecoderLayer> layers_;
  Matrix embedded_;
  std::vector<Matrix> residuals_;  // before every MLP
  Matrix last_;                    // after the last layer
  std::optional<model::LmHead> head_;
  Matrix logits_;  // of the first tokens
};

}  // namespace neuronmm::compress
