#pragma once
// The decoder-only transformer: embeddings, layers of attention and SwiGLU MLP with RMS norms and
// residuals, LM head. Llama, Mistral, Qwen2 (q/k/v bias) and Qwen3 (q/k norm) are one code with the
// config's switches.
//
// Letters: M tokens, H hidden_size, I intermediate_size.

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "model/forward_pass.h"
#include "model/layer_weights.h"
#include "model/model_host.h"
#include "ops/backend.h"

namespace neuronmm::model {

// Sees the activations that calibration needs. Rows are tokens.
class MlpObserver {
 public:
  virtual ~MlpObserver() = default;
  virtual void on_mlp(int64_t layer, ConstMatrixView input, ConstMatrixView output) = 0;
};

// One layer on a backend. Owns packed weights and norm gains, nothing of the sequence.
class DecoderLayer {
 public:
  DecoderLayer(const io::ModelConfig& config, int64_t index, const LayerWeights& weights,
               const ops::Backend& backend);
  // hidden[M,H] of the batch's new tokens becomes this layer's output, in place.
  void forward(MutableMatrixView hidden, const ops::RotaryEmbedding& rotary, ops::Batch batch,
               MlpObserver* observer = nullptr) const;
  // Its first half alone, up to the residual that the MLP reads.
  void attention_half(MutableMatrixView hidden, const ops::RotaryEmbedding& rotary,
                      ops::Batch batch) const;

 private:
  const io::ModelConfig& config_;
  int64_t index_;
  const ops::Backend& backend_;
  std::vector<float> input_norm_, post_attention_norm_;
  std::unique_ptr<ops::Attention> attention_;
  std::unique_ptr<ops::Mlp> mlp_;
};

// What follows the last layer: the final norm and the projection to the vocabulary.
class LmHead {
 public:
  static Result<LmHead> load(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                             const ops::Backend& backend);
  // The logits [M, vocab_size] after hidden [M, H], which becomes its norm in place.
  Matrix logits(MutableMatrixView hidden) const;
  Predictions predict(MutableMatrixView hidden, std::span<const ops::WantedLogits> wanted) const;
  // With another projection in the place of its own.
  Matrix logits(MutableMatrixView hidden, const ops::Linear& projection) const;

 private:
  LmHead() = default;

  const ops::Backend* backend_ = nullptr;
  float eps_ = 0.0f;
  int64_t vocab_size_ = 0;
  std::vector<float> norm_;
  std::unique_ptr<ops::Linear> projection_;
};

// All attention heads of a model.
ops::AttentionShape attention_shape(const io::ModelConfig& config);

// The weights of all layers. Their names, shapes and forms are checked, and that the backend knows
// them, before anything is packed: a wrong shape in the last layer is found before minutes of it.
Result<std::vector<LayerWeights>> supported_layers(const io::Checkpoint& checkpoint,
                                                   const io::ModelConfig& config,
                                                   const ops::Backend& backend);

class Transformer {
 public:
  // Opens the folder's config and weights and packs all layers. `backend` must outlive the model.
  static Result<Transformer> load(const std::filesystem::path& folder, const ops::Backend& backend);
  static Result<Transformer> load(io::ModelConfig config, io::Checkpoint checkpoint,
                                  const ops::Backend& backend);

  const io::ModelConfig& config() const { return *config_; }
  const io::Checkpoint& checkpoint() const { return *checkpoint_; }
  const ops::Backend& backend() const { return *backend_; }
  // A cache whose keys and values may be rounded to `dtype` (kBF16 or kF32); in the first form to
  // bf16 for a bf16 model (or an int8 one made from it), as other frameworks do.
  std::unique_ptr<ops::KvCache> make_cache(int64_t capacity_tokens) const;
  std::unique_ptr<ops::KvCache> make_cache(int64_t capacity_tokens, DType dtype) const;
  // Copies block `index` of one cache of this model to another cache of it.
  void copy_block(const ops::KvCache& from, const ops::KvCache& to, int64_t index) const;

  using Logits = model::Logits;
  // Appends tokens to every sequence of the batch, in one pass over the weights. Returns the logits
  // that each of them wants, sequence by sequence: [rows, vocab_size]. What a sequence gets depends
  // neither on the others nor on how its tokens were cut into passes. A ModelHost may throw
  // WorkersLost.
  Matrix forward(std::span<const SequenceTokens> batch, MlpObserver* observer = nullptr) const;
  // The same for one sequence.
  Matrix forward(std::span<const TokenId> tokens, ops::KvCache& cache, Logits which,
                 MlpObserver* observer = nullptr) const;
  // Computes the same, but the logits that nobody wants may be missing (SequenceTokens::wanted).
  Predictions predict(std::span<const SequenceTokens> batch, MlpObserver* observer = nullptr) const;

 private:
  Transformer() = default;
  Status open();
  Status pack();
  const ops::Backend& parts_backend() const {
    return hosted_ == nullptr ? *backend_ : hosted_->backend();
  }
  Predictions compute(std::span<const SequenceTokens> batch, MlpObserver* observer) const;

  std::unique_ptr<io::ModelConfig> config_;  // layers point at it
  std::unique_ptr<io::Checkpoint> checkpoint_;
  const ops::Backend* backend_ = nullptr;
  std::unique_ptr<HostedModel> hosted_;  // null: the backend is no ModelHost
  ops::RotaryEmbedding rotary_;
  ops::WeightView embedding_;  // [vocab_size, H]
  std::vector<DecoderLayer> layers_;
  std::optional<LmHead> lm_head_;
};

// An error that names the first id outside [0, vocab_size).
Status check_token_ids(std::span<const TokenId> tokens, const io::ModelConfig& config);

// Rows of the embedding table. out[M,H].
void embed(const ops::WeightView& table, std::span<const TokenId> tokens, MutableMatrixView out);

}  // namespace neuronmm::model
