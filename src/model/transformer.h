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
#include "model/layer_weights.h"
#include "ops/backend.h"
#include "text/token_id.h"

namespace neuronmm::model {

using text::TokenId;

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
  void attend(ConstMatrixView x, const ops::RotaryEmbedding& rotary, ops::Batch batch,
              MutableMatrixView y) const;

  const io::ModelConfig& config_;
  int64_t index_;
  const ops::Backend& backend_;
  ops::AttentionShape heads_;  // those that the backend computes
  std::vector<float> input_norm_, post_attention_norm_, q_norm_, k_norm_;
  std::unique_ptr<ops::Linear> q_, k_, v_, o_;
  std::unique_ptr<ops::Mlp> mlp_;
};

// After which tokens of a sequence the logits are wanted.
enum class Logits { kNone, kLast, kAll };

// The next tokens of one sequence (ids < vocab_size, at least one), and the cache that holds the
// tokens before them.
struct SequenceTokens {
  std::span<const TokenId> tokens;
  ops::KvCache* cache = nullptr;
  Logits logits = Logits::kLast;
  // What predict() is to tell of each row of logits; empty: all.
  std::vector<ops::WantedLogits> wanted = {};
};

// Logits [rows, vocab_size], of which nothing is left out that was wanted.
struct Predictions {
  Matrix logits;
  std::vector<std::optional<ops::LogSum>> log_sums;  // ops::Linear::apply_wanted

  std::span<const float> row(int64_t i) const {
    return {logits.row(i), static_cast<size_t>(logits.columns())};
  }
  // Nothing where the row tells it.
  std::optional<ops::LogSum> log_sum(int64_t i) const {
    return log_sums.empty() ? std::nullopt : log_sums[static_cast<size_t>(i)];
  }
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
  // Copies a block of one cache of this model to another's, wherever its parts are computed.
  void copy_block(const ops::KvCache& from, const ops::KvCache& to, int64_t index) const;

  using Logits = model::Logits;
  // Appends tokens to every sequence of the batch, in one pass over the weights. Returns the logits
  // that each of them wants, sequence by sequence: [rows, vocab_size]. What a sequence gets depends
  // neither on the others nor on how its tokens were cut into passes. Throws WorkersLost where the
  // model's parts in other processes are lost, or wait for the rest of a pass that failed here.
  Matrix forward(std::span<const SequenceTokens> batch, MlpObserver* observer = nullptr) const;
  // The same for one sequence.
  Matrix forward(std::span<const TokenId> tokens, ops::KvCache& cache, Logits which,
                 MlpObserver* observer = nullptr) const;
  // The same where little is looked at of the logits. What is left out costs nothing on the way
  // from other processes.
  Predictions predict(std::span<const SequenceTokens> batch, MlpObserver* observer = nullptr) const;

 private:
  Transformer() = default;
  Status open();
  Status pack();
  void tell_counterparts(std::span<const SequenceTokens> batch) const;
  Predictions compute(std::span<const SequenceTokens> batch, MlpObserver* observer) const;

  std::unique_ptr<io::ModelConfig> config_;  // layers point at it
  std::unique_ptr<io::Checkpoint> checkpoint_;
  const ops::Backend* backend_ = nullptr;
  ops::RotaryEmbedding rotary_;
  ops::WeightView embedding_;  // [vocab_size, H]
  std::vector<DecoderLayer> layers_;
  std::optional<LmHead> lm_head_;
  std::unique_ptr<ops::Counterparts> counterparts_;  // null: this process is all there is
};

// An error that names the first id outside [0, vocab_size).
Status check_token_ids(std::span<const TokenId> tokens, const io::ModelConfig& config);

// Rows of the embedding table. out[M,H].
void embed(const ops::WeightView& table, std::span<const TokenId> tokens, MutableMatrixView out);

}  // namespace neuronmm::model
