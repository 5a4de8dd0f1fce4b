#pragma once
// The model of model/transformer.h in torch operations, so that gradients can be computed.
// TrainableModel and the output metric run it. This header includes torch and is internal to this
// folder.
//
// Letters: B sequences, T tokens of the longest sequence, H hidden_size, V vocab_size.
//
// There are two dtypes. The dtype of values is that of hidden states, norms, softmax and trained
// weights. The dtype of products is that of multiplications with weights, whose factors are rounded
// to it where it is narrower (bf16). Sums are in fp32 with bf16, too, and only the results are
// rounded.

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
#include "model/rope.h"

namespace neuronmm::finetune {

// A matrix of a linear layer and its adapter, if it has one: W + scale · B·A. Products are computed
// in the dtype of x, and their results have that dtype.
struct TorchMatrix {
  std::string name;   // the name of its tensor in the checkpoint
  at::Tensor weight;  // [out, in]
  // The rounded weight, which products of rounded x use instead of `weight`. Undefined without
  // rounding.
  at::Tensor rounded;
  KeptGrid grid;    // the grid of `rounded`
  at::Tensor a, b;  // [rank, in], [out, rank]; undefined: no adapter
  double scale = 0.0;
  mutable CachedCast cast = {};  // the weight in the dtype of products

  // Returns the weight that products use.
  const at::Tensor& used() const { return rounded.defined() ? rounded : weight; }
  at::Tensor apply(const at::Tensor& x) const;
};

// Elements of a vector that stand for all of its elements (see ops::Pivots).
struct TorchPivots {
  at::Tensor index, others;  // int64, ascending; undefined without pivots
  at::Tensor order;          // int64: the place of element i of a vector in (pivots, others)
  TorchMatrix map;

  bool empty() const { return !index.defined(); }
  // Returns the elements of x at the pivots plus `map` of the other elements. Without pivots it
  // returns x itself.
  at::Tensor narrow(const at::Tensor& x) const;
  // Returns the whole vector that the pivots z stand for.
  at::Tensor widen(const at::Tensor& z) const;
};

// A linear layer: y = x · u · v, or y = x · w if u has no weight. In the second case x or y may
// have pivots. The shapes are those of ops::LinearWeight.
struct TorchLinear {
  TorchMatrix w, u, v;
  TorchPivots in, out;
  at::Tensor bias;  // [out]; may be undefined

  bool low_rank() const { return u.weight.defined(); }
  int64_t out_features() const { return (low_rank() ? v : w).weight.size(0); }
  at::Tensor apply(const at::Tensor& x) const;
};

// The weights of a decoder layer.
struct TorchLayer {
  // The gains of norms, with gain_offset. Those that the model lacks are undefined.
  at::Tensor input_norm, post_attention_norm, q_norm, k_norm;
  at::Tensor attention_output_norm, mlp_output_norm;
  TorchLinear q, k, v, o, gate, up, down;
  TorchPivots mlp_in;  // pivots that gate and up share
  // The MLP has fewer neurons than the original, so that gate, up and down count as factors
  // although they are dense.
  bool fewer_neurons = false;
  bool all_matrices = false;  // all matrices may be trained, not only factors
};

// Tensors that are added to the outputs of gate (before its activation), up and down of one layer:
// [B, T, I], [B, T, I] and [B, T, H]. The gradient of a zero that is added to an output is the
// gradient of that output.
struct MlpOffsets {
  at::Tensor gate, up, down;
};

// Hidden states between layers, which are residual + update. The next norm adds both in one pass.
struct TorchHidden {
  // The residual stream [B, T, H] in the dtype of values.
  at::Tensor residual;
  // The output of the last MLP [B, T, H] in the dtype of products, which is not added yet. May be
  // undefined.
  at::Tensor update;
};

// The model itself: embedding, decoder layers, final norm and LM head.
class TorchTransformer {
 public:
  enum class Layers { kLoaded, kOneByOne };

  // Loads the weights in the dtype and on the device of `options`. No weight requires a gradient.
  // Products are computed in `product_type`.
  //
  // With a `rounding`, all linear layers are rounded as in a folder with that rounding, and their
  // inputs as the kernels round them. Weights that have few bits already stay as they are. A
  // checkpoint with rounded weights is refused without a `rounding`. `all_matrices` sets
  // TorchLayer::all_matrices of all layers. With kOneByOne a layer is in memory only between
  // read_layer and drop_layer, and there is no rounding.
  static Result<TorchTransformer> load(const std::filesystem::path& folder,
                                       const at::TensorOptions& options,
                                       at::ScalarType product_type,
                                       const std::optional<io::Quantization>& rounding = {},
                                       bool all_matrices = false, Layers layers = Layers::kLoaded);
  Status read_layer(int64_t index);
  void drop_layer(int64_t index) { layers_[static_cast<size_t>(index)] = {}; }

  const io::ModelConfig& config() const { return config_; }
  const io::Checkpoint& checkpoint() const { return checkpoint_; }
  std::vector<TorchLayer>& layers() { return layers_; }
  const std::vector<TorchLayer>& layers() const { return layers_; }

  at::Tensor embed(const at::Tensor& ids) const;  // [B, T] -> [B, T, H]
  // Runs layers [first, last).
  at::Tensor run_layers(at::Tensor hidden, int64_t first, int64_t last) const;
  at::Tensor run_layer(const at::Tensor& hidden, int64_t index,
                       const MlpOffsets& offsets = {}) const;
  at::Tensor logits(const at::Tensor& rows) const;  // final norm and LM head: [N, H] -> [N, V]
  // The input of the LM head [N, H], in the dtype of products: the final norm over logit_divisor.
  at::Tensor final_norm(const at::Tensor& rows) const;
  const at::Tensor& lm_head() const { return lm_head_; }  // [V, H]

  // Applies logit_cap to products with the LM head, if the model has one.
  at::Tensor capped(const at::Tensor& logits) const;

  // Keeps the matrices of the layers in the dtype of products only, for a model that is not
  // trained.
  void freeze();

 private:
  TorchTransformer() = default;
  const Rotation& rotation(int64_t table, int64_t length) const;
  // Turns x [B, T, heads, D] by a layer's table and scales it: [B, heads, T, D].
  at::Tensor turned(const at::Tensor& x, int64_t table, double scale) const;
  at::Tensor heat(const at::Tensor& q) const;
  at::Tensor attend(int64_t index, const at::Tensor& x) const;
  // Returns what is added to the residual stream for an output of attention or of the MLP.
  at::Tensor added(const at::Tensor& output, const at::Tensor& norm) const;
  TorchHidden apply_layer(const TorchHidden& hidden, int64_t index,
                          const MlpOffsets& offsets) const;

  io::ModelConfig config_;
  io::Checkpoint checkpoint_;
  at::TensorOptions options_;
  at::ScalarType product_type_ = at::kFloat;
  at::Tensor embedding_, final_norm_, lm_head_;
  model::RotaryTables rotary_;
  std::vector<TorchLayer> layers_;
  mutable std::vector<Rotation> rotations_;  // of each table, for the last requested length
};

}  // namespace neuronmm::finetune
