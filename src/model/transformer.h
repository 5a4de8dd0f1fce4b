#pragma once
// The decoder-only transformer: embeddings, layers of attention and gated MLP with RMS norms and
// residuals, and the LM head. One implementation covers all families of models; the switches of the
// config (io/model_config.h) make the differences. A Backend computes all operations.
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
#include "model/rope.h"
#include "ops/backend.h"

namespace neuronmm::model {

// An observer that sees every MLP's input [M, H] and output [M, H] (before its norm, if it has one,
// and before the residual is added) during a forward pass. Calibration uses it. Rows are tokens.
class MlpObserver {
 public:
  virtual ~MlpObserver() = default;
  virtual void on_mlp(int64_t layer, ConstMatrixView input, ConstMatrixView output) = 0;
};

// The norms and the residual around attention or the MLP in a layer: x += residual_scale *
// output_norm(f(norm(x))). Compression uses it by itself.
class SubLayer {
 public:
  SubLayer(const io::ModelConfig& config, const TensorView& input_norm,
           const TensorView& output_norm);
  // Returns what f reads: `normed`, which becomes the norm of x, or x itself without a norm.
  ConstMatrixView input(const ops::Backend& backend, ConstMatrixView x,
                        MutableMatrixView normed) const;
  // Replaces f's output by what is added to the residual stream.
  void finish(const ops::Backend& backend, MutableMatrixView output) const;

 private:
  float eps_, residual_scale_;
  std::vector<float> input_gains_, output_gains_;  // empty: no norm
};

// A decoder layer on a backend. It owns packed weights and norm gains, but no state of a sequence.
class DecoderLayer {
 public:
  // `index` is the layer's number in the caches and for observers; weights.layer says which layer
  // of the model it is.
  DecoderLayer(const io::ModelConfig& config, int64_t index, const LayerWeights& weights,
               const ops::Backend& backend);
  // Replaces `hidden` [M, H], the rows of the batch's new tokens, by this layer's output.
  void forward(MutableMatrixView hidden, const RotaryTables& rotary, ops::Batch batch,
               MlpObserver* observer = nullptr) const;
  // Computes only the first half of the layer: attention and its residual. The result is what the
  // MLP's norm reads.
  void attention_half(MutableMatrixView hidden, const RotaryTables& rotary, ops::Batch batch) const;

 private:
  int64_t index_;
  const ops::Backend& backend_;
  int64_t rope_;  // of the layer, in RotaryTables
  SubLayer around_attention_, around_mlp_;
  std::unique_ptr<ops::Attention> attention_;
  std::unique_ptr<ops::Mlp> mlp_;  // or a mixture of experts
};

// The final norm and the projection to the vocabulary, which follow the last layer.
class LmHead {
 public:
  // Also for programs that hold one layer at a time and need the head by itself.
  static Result<LmHead> load(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                             const ops::Backend& backend);
  // Overwrites `hidden` [M, H] by its final norm.
  void normalize(MutableMatrixView hidden) const;
  // Returns the logits [M, vocab_size] of `hidden` [M, H]. Overwrites `hidden` by its norm.
  Matrix logits(MutableMatrixView hidden) const;
  // Computes at least the logits in `wanted` (one entry per row; empty for all logits). Overwrites
  // `hidden`, too.
  Predictions predict(MutableMatrixView hidden, std::span<const ops::WantedLogits> wanted) const;
  // Computes logits with `projection` in place of the head's own projection.
  Matrix logits(MutableMatrixView hidden, const ops::Linear& projection) const;

 private:
  LmHead() = default;

  const ops::Backend* backend_ = nullptr;
  float eps_ = 0.0f;
  int64_t vocab_size_ = 0;
  float logit_cap_ = 0.0f;
  std::vector<float> norm_;       // the gains of normalize()
  std::vector<float> head_norm_;  // the same over logit_divisor, so that logits need no division
  std::unique_ptr<ops::Linear> projection_;
};

// Returns the shape of a layer's attention, with all heads and without sinks.
ops::AttentionShape attention_shape(const io::ModelConfig& config, int64_t layer);

// Returns the weights of all layers, not yet packed. Their names, shapes and forms are checked, and
// the backend is asked whether it supports them. A wrong shape in the last layer is therefore found
// before minutes are spent on packing.
Result<std::vector<LayerWeights>> supported_layers(const io::Checkpoint& checkpoint,
                                                   const io::ModelConfig& config,
                                                   const ops::Backend& backend);

// A model that is loaded on a backend. The state of each sequence is in its KvCache.
class Transformer {
 public:
  // Opens the folder's config and weights and packs all layers. `backend` must outlive the model.
  // Errors: files that are missing or broken, tensors that do not fit the config, or forms that the
  // backend does not support.
  static Result<Transformer> load(const std::filesystem::path& folder, const ops::Backend& backend);
  static Result<Transformer> load(io::ModelConfig config, io::Checkpoint checkpoint,
                                  const ops::Backend& backend);

  const io::ModelConfig& config() const { return *config_; }
  const io::Checkpoint& checkpoint() const { return *checkpoint_; }
  const ops::Backend& backend() const { return *backend_; }
  // Makes an empty cache whose keys and values may be rounded to `dtype` (kBF16, kI8 or kF32).
  // Without `dtype` they are rounded to bf16 for a bf16 or quantized model, as other frameworks do,
  // or to what the backend prefers.
  std::unique_ptr<ops::KvCache> make_cache(int64_t capacity_tokens) const;
  std::unique_ptr<ops::KvCache> make_cache(int64_t capacity_tokens, DType dtype) const;
  // Copies block `index` of one cache of this model to block `index` of another.
  void copy_block(const ops::KvCache& from, const ops::KvCache& to, int64_t index) const;

  using Logits = model::Logits;
  // Appends tokens to every sequence of the batch, in one pass over the weights. Returns the logits
  // that the sequences want, sequence by sequence: [rows, vocab_size]. A sequence's logits depend
  // neither on the other sequences nor on how its tokens were divided into passes. A ModelHost may
  // throw WorkersLost.
  //
  // One kind of model depends on the length: longrope has a table for sequences up to the original
  // context and one for longer ones (io::LongRopeScaling). The table of a sequence is that of its
  // length after the pass, or of ops::KvCache::expected_tokens() if that is more. When the table
  // changes, all tokens in the cache are computed anew in one pass, as transformers does. The cache
  // must then hold their ids.
  Matrix forward(std::span<const SequenceTokens> batch, MlpObserver* observer = nullptr) const;
  // Runs one sequence.
  Matrix forward(std::span<const TokenId> tokens, ops::KvCache& cache, Logits which,
                 MlpObserver* observer = nullptr) const;
  // Does what forward() does, but logits that nobody wants may be missing (SequenceTokens::wanted).
  Predictions predict(std::span<const SequenceTokens> batch, MlpObserver* observer = nullptr) const;

 private:
  Transformer() = default;
  Status open();
  Status pack();
  const ops::Backend& parts_backend() const {
    return hosted_ == nullptr ? *backend_ : hosted_->backend();
  }
  Predictions run(std::span<const SequenceTokens> batch, MlpObserver* observer) const;
  void choose_rope(const SequenceTokens& sequence) const;
  void compute_anew(ops::KvCache& cache, bool is_long) const;
  Predictions compute(std::span<const SequenceTokens> batch, MlpObserver* observer) const;

  std::unique_ptr<io::ModelConfig> config_;  // on the heap because layers keep a reference to it
  std::unique_ptr<io::Checkpoint> checkpoint_;
  const ops::Backend* backend_ = nullptr;
  std::unique_ptr<HostedModel> hosted_;  // null: the backend is no ModelHost
  RotaryTables rotary_;
  int64_t long_rope_from_ = 0;  // see io::ModelConfig::long_rope_from
  ops::WeightView embedding_;   // [vocab_size, H]
  std::vector<DecoderLayer> layers_;
  std::optional<LmHead> lm_head_;
};

// Tells an empty cache that all `tokens` tokens of a sequence come in one pass. Programs that run
// layers by themselves call it; Transformer does it for its own caches.
void begin_sequence(const io::ModelConfig& config, int64_t tokens, ops::KvCache& cache);

// Returns how many tokens a pass may append to `length` others so that its rows turn as they would
// one by one: the first token may change the table of the sequence, and later ones may not.
int64_t same_rope_tokens(const io::ModelConfig& config, int64_t length);

// Returns an error that names the first id outside [0, vocab_size), if there is one.
Status check_token_ids(std::span<const TokenId> tokens, const io::ModelConfig& config);

// Writes row tokens[i] of the embedding table, times `scale` (embedding_scale of the config), to
// row i of `out` [M, H], as fp32.
void embed(const ops::WeightView& table, std::span<const TokenId> tokens, double scale,
           MutableMatrixView out);

}  // namespace neuronmm::model
