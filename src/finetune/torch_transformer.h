#pragma once
// The model of model/transformer.h in torch operations, so that gradients can be taken. Internal to
// this folder: no header that others include has torch.
//
// Letters: B sequences, T tokens of the longest, H hidden_size, V vocab_size.
//
// Two dtypes: that of hidden states, norms, softmax and trained weights, and that of the products
// with weights, whose factors are rounded to it where it is narrower (bf16; sums are fp32 in it,
// too, and only results are rounded).

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "base/result.h"
#include "finetune/torch_product.h"
#include "finetune/torch_rotation.h"
#include "finetune/torch_rounding.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "io/quantization.h"

namespace neuronmm::finetune {

// A matrix of a linear layer and, while it has one, its adapter: W + scale · B·A. Products are
// computed in the dtype of x and have it.
struct TorchMatrix {
  std::string name;    // of its tensor in the checkpoint
  at::Tensor weight;   // [out, in]
  at::Tensor rounded;  // what stands for it in products, of rounded x; undefined: itself
  KeptGrid grid;       // of `rounded`
  at::Tensor a, b;     // [rank, in], [out, rank]; undefined: no adapter
  double scale = 0.0;
  mutable NarrowCopy narrow = {};  // of the weight, in the dtype of products

  const at::Tensor& used() const { return rounded.defined() ? rounded : weight; }
  at::Tensor apply(const at::Tensor& x) const;
};

// Elements of a vector that stand for all of them, see ops::Pivots.
struct TorchPivots {
  at::Tensor index, others;  // int64, ascending; undefined without pivots
  at::Tensor order;          // int64: where element i of a vector is in (pivots, others)
  TorchMatrix map;

  bool empty() const { return !index.defined(); }
  at::Tensor narrow(const at::Tensor& x) const;  // x itself without pivots
  at::Tensor widen(const at::Tensor& z) const;
};

// y = x · u · v, or x · w where u has no weight, perhaps between pivots of x or of y. Shapes as in
// ops::LinearWeight.
struct TorchLinear {
  TorchMatrix w, u, v;
  TorchPivots in, out;
  at::Tensor bias;  // [out]; may be undefined

  bool low_rank() const { return u.weight.defined(); }
  int64_t out_features() const { return (low_rank() ? v : w).weight.size(0); }
  at::Tensor apply(const at::Tensor& x) const;
};

struct TorchLayer {
  at::Tensor input_norm, post_attention_norm, q_norm, k_norm;
  TorchLinear q, k, v, o, gate, up, down;
  TorchPivots mlp_in;          // that gate and up share
  bool fewer_neurons = false;  // than the original: gate, up and down are compressed though dense
  bool whole = false;          // all its matrices may be trained, not only factors
};

// What is added to the outputs of gate (before silu), up and down (in all its features) of one
// layer, [B, T, I], [B, T, I] and [B, T, H]: the gradient of a zero that is added is the gradient
// of the output.
struct MlpOffsets {
  at::Tensor gate, up, down;
};

// Hidden states between layers: the sum of both. The last product's result is added by the norm
// that comes next.
struct TorchHidden {
  at::Tensor sum, change;  // [B, T, H] in the dtypes of values and of products; perhaps no change
};

class TorchTransformer {
 public:
  enum class Layers { kLoaded, kOneByOne };

  // Weights in `options`' dtype and device, none of which requires a gradient; products in `dots`.
  // With a `rounding` all linear layers are rounded as in such a folder, those that are there in
  // few bits stay as they are, and what they are multiplied with is rounded as the kernels round
  // it. A checkpoint with rounded weights is refused without it. `whole`: of all layers. kOneByOne:
  // a layer is in memory between read_layer and drop_layer only; without a `rounding`.
  static Result<TorchTransformer> load(const std::filesystem::path& folder,
                                       const at::TensorOptions& options, at::ScalarType dots,
                                       const std::optional<io::Quantization>& rounding = {},
                                       bool whole = false, Layers layers = Layers::kLoaded);
  Status read_layer(int64_t index);
  void drop_layer(int64_t index) { layers_[static_cast<size_t>(index)] = {}; }

  const io::ModelConfig& config() const { return config_; }
  const io::Checkpoint& checkpoint() const { return checkpoint_; }
  std::vector<TorchLayer>& layers() { return layers_; }
  const std::vector<TorchLayer>& layers() const { return layers_; }

  at::Tensor embed(const at::Tensor& ids) const;  // [B, T] -> [B, T, H]
  // Layers [first, last).
  at::Tensor run_layers(at::Tensor hidden, int64_t first, int64_t last) const;
  at::Tensor run_layer(const at::Tensor& hidden, int64_t index,
                       const MlpOffsets& offsets = {}) const;
  at::Tensor logits(const at::Tensor& rows) const;      // final norm and LM head: [N, H] -> [N, V]
  at::Tensor final_norm(const at::Tensor& rows) const;  // [N, H], in the dtype of products
  const at::Tensor& lm_head() const { return lm_head_; }  // [V, H]

  // Nothing is trained: the matrices of the layers are kept in the dtype of products alone.
  void freeze();

 private:
  TorchTransformer() = default;
  const Rotation& rotation(int64_t length) const;
  at::Tensor attend(const TorchLayer& layer, const at::Tensor& x) const;
  TorchHidden behind_layer(const TorchHidden& hidden, int64_t index,
                           const MlpOffsets& offsets) const;

  io::ModelConfig config_;
  io::Checkpoint checkpoint_;
  at::TensorOptions options_;
  at::ScalarType dots_ = at::kFloat;
  at::Tensor embedding_, final_norm_, lm_head_;
  at::Tensor inverse_frequencies_;  // [head_dim / 2] fp64
  double attention_factor_ = 1.0;   // see ops::RotaryEmbedding
  std::vector<TorchLayer> layers_;
  mutable Rotation rotation_;  // of the length that was asked for last
};

}  // namespace neuronmm::finetune
