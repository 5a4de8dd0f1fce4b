#pragma once
// Runs the dense model on a text and compares changed models with it. The result is the mean over
// tokens of KL(p_dense ‖ p_changed), in nats. Models may differ from the dense one in one MLP, in
// one layer's attention, in the LM head, or in all MLPs. Compression uses it to measure sizes and
// forms (measured_losses.h, held_out_divergence.h), and `fit` to measure formats. Memory is the
// main cost: see run().

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "compress/factors/mlp_matrix.h"
#include "compress/statistics/inputs.h"
#include "model/transformer.h"

namespace neuronmm::compress {

// Returns the mean over rows of KL(softmax(dense) ‖ softmax(other)), in fp64; both [M, vocab_size].
double mean_divergence(ConstMatrixView dense, ConstMatrixView other);

// The embedded sequences of a text, with a cache for each of them. A cache has one layer, which
// every layer uses as layer 0, because attention needs the keys and values of a layer only while
// that layer runs.
struct EmbeddedSequences {
  Matrix hidden;  // [tokens, H], one sequence after the other
  std::vector<std::unique_ptr<ops::KvCache>> caches;
  std::vector<ops::SequenceRows> batch;  // the rows of each sequence, with its cache
};
// Embeds the sequences. Fails if the embedding table is missing or has another shape.
Result<EmbeddedSequences> embed_sequences(const CompressionInputs& inputs,
                                          const std::vector<std::vector<text::TokenId>>& sequences);

// The dense model, with the hidden states of its run on a text.
class DenseReference {
 public:
  // The memory for logits, in bytes. With a vocabulary of 128 thousand, the logits of 2,000 tokens
  // need more memory than a small model. Assumed.
  static constexpr int64_t kKeptLogitBytes = int64_t{512} << 20;

  // Runs the sequences through the dense model, each as a context of its own. Memory holds the
  // packed model, 4·H bytes per token and layer, and the logits of as many tokens as fit into
  // `kept_logit_bytes`. The logits of the other tokens are computed again for every comparison.
  // `inputs` must outlive the object. Fails if tensors are missing or have other shapes.
  // Predictions are compared at every `stride`-th token, because an LM head of a large vocabulary
  // takes as long as many layers.
  static Result<DenseReference> run(const CompressionInputs& inputs,
                                    const std::vector<std::vector<text::TokenId>>& sequences,
                                    int64_t kept_logit_bytes = kKeptLogitBytes, int64_t stride = 1);

  // Returns the divergence of the model in which `mlp` replaces the MLP of one layer. Later layers
  // get the changed hidden states.
  double divergence_with(int64_t layer, const ops::MlpWeight& mlp) const;
  // Returns the divergence of the model with the attention of `weights` in one layer. weights.mlp
  // is not read.
  double divergence_with_attention(int64_t layer, const model::LayerWeights& weights) const;
  // Returns the divergence of the model with this LM head [vocab_size, H] after the dense layers.
  double divergence_with_head(const ops::Linear& head) const;
  // Returns the divergence of the model with another embedding table that is also its LM head.
  // `embedded` [tokens, H] holds the table's rows for the tokens, one sequence after the other.
  // They are not multiplied by config.embedding_scale yet.
  double divergence_with_table(const ops::Linear& head, Matrix embedded) const;
  // Returns the divergence of the model that reads these rows of an embedding table instead.
  double divergence_with_embeddings(Matrix embedded) const;
  // Returns the dense weights of a layer.
  const model::LayerWeights& weights(int64_t layer) const {
    return weights_[static_cast<size_t>(layer)];
  }
  // Returns the divergence of the model with all MLPs replaced. `with_mlp` hands over each MLP when
  // its layer runs.
  Result<double> divergence_of(const WithMlp& with_mlp) const;

 private:
  // Multiplies rows of an embedding table by the embedding scale and takes them through all layers.
  void run_embedded(MutableMatrixView embedded) const;
  explicit DenseReference(const CompressionInputs& inputs) : inputs_(&inputs) {}
  void add_mlp(int64_t layer, const ops::MlpWeight& mlp, Matrix& residual) const;
  double divergence_after(int64_t layer, Matrix hidden) const;
  // Returns the logits of the dense model for rows that are not kept.
  Matrix own_logits(int64_t row, int64_t count) const;
  // Returns the rows of the tokens whose predictions are compared.
  Matrix compared_rows(Matrix hidden) const;
  // Takes the rows of compared_rows(). `projection` is the LM head of the changed model; null
  // stands for the dense one.
  double divergence(Matrix hidden, const ops::Linear* projection = nullptr) const;

  const CompressionInputs* inputs_;
  model::RotaryTables rotary_;
  std::vector<std::unique_ptr<ops::KvCache>> caches_;
  std::vector<ops::SequenceRows> batch_;
  std::vector<model::LayerWeights> weights_;
  std::vector<model::DecoderLayer> layers_;
  Matrix embedded_;
  std::vector<Matrix> residuals_;  // the hidden states before every MLP
  Matrix last_;                    // the compared rows after the last layer
  int64_t stride_ = 1;
  std::optional<model::LmHead> head_;
  Matrix logits_;  // of the first tokens
};

}  // namespace neuronmm::compress
