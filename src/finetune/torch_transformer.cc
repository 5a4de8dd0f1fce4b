#include "finetune/torch_transformer.h"

#include <cmath>
#include <limits>

#include "model/rope.h"
#include "model/transformer.h"
#include "model/weight_reader.h"

namespace neuronmm::finetune {
namespace {

// Assumed; measured for 64, 128 and 256: query rows that see the same keys. Small, so that little
// is computed of what the causal mask hides.
constexpr int64_t kQueryBlock = 128;

// Copies checkpoint tensors into torch's.
class Loader {
 public:
  Loader(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
         const at::TensorOptions& options, const std::optional<io::Quantization>& rounding)
      : checkpoint_(checkpoint), config_(config), options_(options), rounding_(rounding) {}

  // Through fp32, whatever the checkpoint's dtype and the training's.
  at::Tensor tensor(const ops::WeightView& view) const {
    if (view.empty()) return {};
    at::Tensor values = at::empty(view.shape, at::TensorOptions(at::kFloat));
    const int64_t columns = view.shape.back();  // rows one by one: rounded ones have scales
    for (int64_t first = 0; first < view.size(); first += columns) {
      to_floats(view, first, columns, values.data_ptr<float>() + first);
    }
    return values.to(options_);
  }

  Result<TorchLayer> layer(int64_t index) const {
    NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint_, config_, index));
    const std::string prefix =
        fmt::format("{}layers.{}.", model::tensor_prefix(checkpoint_), index);
    TorchLayer layer;
    layer.input_norm = tensor(weights.input_norm);
    layer.post_attention_norm = tensor(weights.post_attention_norm);
    layer.q_norm = tensor(weights.q_norm);
    layer.k_norm = tensor(weights.k_norm);
    layer.q = linear(weights.q, prefix + "self_attn.q");
    layer.k = linear(weights.k, prefix + "self_attn.k");
    layer.v = linear(weights.v, prefix + "self_attn.v");
    layer.o = linear(weights.o, prefix + "self_attn.o");
    layer.gate = linear(weights.mlp.gate, prefix + "mlp.gate");
    layer.up = linear(weights.mlp.up, prefix + "mlp.up");
    layer.down = linear(weights.mlp.down, prefix + "mlp.down");
    layer.mlp_in = pivots(weights.mlp.in, prefix + "mlp.input");
    layer.fewer_neurons = has_fewer_neurons(index);
    return layer;
  }

  TorchMatrix matrix(std::string name, const ops::WeightView& view) const {
    TorchMatrix matrix = {std::move(name), tensor(view), {}, {}, {}, {}};
    if (!rounding_ || view.empty()) return matrix;
    matrix.grid = KeptGrid(view, rounding_->of(matrix.name));
    matrix.rounded =
        view.quantized() ? matrix.weight.clone() : rounded_weight(matrix.weight, matrix.grid);
    return matrix;
  }

 private:
  // Names go with the tensors: trained ones are written back under them. A dense layer has w alone
  // and a low-rank one u and v; what is absent is an undefined tensor.
  TorchLinear linear(const ops::LinearWeight& weight, const std::string& stem) const {
    TorchLinear linear;
    linear.w = matrix(stem + "_proj.weight", weight.w_t);
    // The crossed names of checkpoints: see model/layer_weights.cc.
    linear.u = matrix(stem + "_v_proj.weight", weight.u_t);
    linear.v = matrix(stem + "_u_proj.weight", weight.v_t);
    linear.in = pivots(weight.in, stem);
    linear.out = pivots(weight.out, stem);
    linear.bias = tensor(weight.bias);
    return linear;
  }

  TorchPivots pivots(const ops::Pivots& weight, const std::string& stem) const {
    if (weight.empty()) return {};
    const auto indices = [&](const std::vector<int32_t>& list) {
      const std::vector<int64_t> wide(list.begin(), list.end());
      return at::tensor(at::ArrayRef<int64_t>(wide)).to(options_.device());
    };
    TorchPivots pivots;
    pivots.index = indices(weight.index);
    pivots.others = indices(ops::others(weight));
    pivots.order = at::argsort(at::cat({pivots.index, pivots.others}));
    pivots.map = matrix(stem + "_pivot_proj.weight", weight.map_t);
    return pivots;
  }

  // Such an MLP has the tensors of a dense one: that it is smaller than it was is on record.
  bool has_fewer_neurons(int64_t layer) const {
    const auto& record = config_.compression;
    if (!record) return false;
    return record->form == "neurons" || record->ranks.at(static_cast<size_t>(layer)).neurons > 0;
  }

  const io::Checkpoint& checkpoint_;
  const io::ModelConfig& config_;
  const at::TensorOptions& options_;
  const std::optional<io::Quantization>& rounding_;
};

at::Tensor shifted(const at::Tensor& x, const at::Tensor& offset) {
  return offset.defined() ? x + offset : x;
}

Status refuse_quantized(const io::Checkpoint& checkpoint) {
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (tensor.dtype != DType::kI8 && tensor.dtype != DType::kU8) continue;
    return fail("{}: expected float weights, found {} in {}; give the model it was made of",
                checkpoint.folder().string(), tensor.dtype == DType::kI8 ? "int8" : "4 or 6 bits",
                name);
  }
  return {};
}

}  // namespace

// The adapter's product is small and kept apart from the weight, which is not trained.
at::Tensor TorchMatrix::apply(const at::Tensor& x) const {
  const at::ScalarType dots = x.scalar_type();
  if (rounded.defined()) return at::linear(rounded_activations(x), rounded.to(dots));
  const at::Tensor y = at::linear(x, weight.to(dots));
  return a.defined() ? y + at::linear(at::linear(x, a.to(dots)), b.to(dots)) * scale : y;
}

at::Tensor TorchPivots::narrow(const at::Tensor& x) const {
  if (empty()) return x;
  return at::index_select(x, -1, index) + map.apply(at::index_select(x, -1, others));
}

at::Tensor TorchPivots::widen(const at::Tensor& z) const {
  if (empty()) return z;
  return at::index_select(at::cat({z, map.apply(z)}, -1), -1, order);
}

// x U V as two products: U·V would have the size of the dense weight.
at::Tensor TorchLinear::apply(const at::Tensor& x) const {
  const at::Tensor y = low_rank() ? v.apply(u.apply(x)) : out.widen(w.apply(in.narrow(x)));
  return bias.defined() ? y + bias : y;
}

Result<TorchTransformer> TorchTransformer::load(const std::filesystem::path& folder,
                                                const at::TensorOptions& options,
                                                at::ScalarType dots,
                                                const std::optional<io::Quantization>& rounding,
                                                bool whole) {
  TorchTransformer model;
  NMM_ASSIGN(model.config_, io::ModelConfig::load(folder / "config.json"));
  NMM_ASSIGN(model.checkpoint_, io::Checkpoint::open(folder));
  model.options_ = options;
  model.dots_ = dots;
  const io::ModelConfig& config = model.config_;
  const io::Checkpoint& checkpoint = model.checkpoint_;
  if (!rounding) NMM_TRY(refuse_quantized(checkpoint));
  const Loader loader(checkpoint, config, options, rounding);
  const std::string prefix = model::tensor_prefix(checkpoint);
  // Every matrix and shape is required as in inference, so that both programs refuse the same
  // folders.
  const Shape table_shape = {config.vocab_size, config.hidden_size};
  const std::string table_name = prefix + "embed_tokens.weight";
  NMM_ASSIGN(const auto table, model::require_weight(checkpoint, config, table_name, table_shape));
  NMM_ASSIGN(const auto norm, checkpoint.require(prefix + "norm.weight", {config.hidden_size}));
  model.final_norm_ = loader.tensor(norm);
  if (config.tie_word_embeddings) {
    model.embedding_ = loader.matrix(table_name, table).used();
    model.lm_head_ = model.embedding_.to(dots);
  } else {
    NMM_ASSIGN(const auto head,
               model::require_weight(checkpoint, config, "lm_head.weight", table_shape));
    model.embedding_ = loader.tensor(table);
    model.lm_head_ = loader.matrix("lm_head.weight", head).used().to(dots);
  }
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    NMM_ASSIGN(auto weights, loader.layer(layer));
    weights.whole = whole;
    for (TorchLinear* const linear : {&weights.q, &weights.k, &weights.v, &weights.o}) {
      if (whole) break;  // else never trained: rounded once
      at::Tensor& used = rounding ? linear->w.rounded : linear->w.weight;
      used = used.to(dots);
    }
    model.layers_.push_back(std::move(weights));
  }
  // Angles are computed in fp64: at long positions fp32 would lose them.
  const auto rotary = model::rotary_embedding(config);
  model.inverse_frequencies_ =
      at::tensor(at::ArrayRef<float>(rotary.inverse_frequencies)).to(options.dtype(at::kDouble));
  model.attention_factor_ = rotary.attention_factor;
  return model;
}

at::Tensor TorchTransformer::embed(const at::Tensor& ids) const {
  return at::embedding(embedding_, ids);
}

at::Tensor TorchTransformer::run_layers(at::Tensor hidden, int64_t first, int64_t last) const {
  for (int64_t i = first; i < last; ++i) hidden = run_layer(hidden, i);
  return hidden;
}

// The same layer as model/transformer.cc, in torch's operations so that gradients come with it. A
// test compares the logits of both.
at::Tensor TorchTransformer::run_layer(const at::Tensor& hidden, int64_t index,
                                       const MlpOffsets& offsets) const {
  const TorchLayer& layer = layers_[static_cast<size_t>(index)];
  const at::ScalarType values = hidden.scalar_type();
  const at::Tensor middle = hidden + attend(layer, norm(hidden, layer.input_norm).to(dots_));
  const at::Tensor x = layer.mlp_in.narrow(norm(middle, layer.post_attention_norm).to(dots_));
  const at::Tensor gate = shifted(layer.gate.apply(x), offsets.gate).to(values);
  const at::Tensor up = shifted(layer.up.apply(x), offsets.up).to(values);
  return middle + shifted(layer.down.apply((at::silu(gate) * up).to(dots_)), offsets.down);
}

at::Tensor TorchTransformer::final_norm(const at::Tensor& rows) const {
  // Beside rounded weights the kernels round it in two terms, finer than fp32 sums show.
  return norm(rows, final_norm_).to(dots_);
}

at::Tensor TorchTransformer::logits(const at::Tensor& rows) const {
  return at::linear(final_norm(rows), lm_head_);
}

// RMSNorm, written out so that the gradient goes through the mean square, too.
at::Tensor TorchTransformer::norm(const at::Tensor& x, const at::Tensor& gain) const {
  const at::Tensor mean_square = at::mean(x * x, at::IntArrayRef{-1}, /*keepdim=*/true);
  return x * at::rsqrt(mean_square + config_.rms_norm_eps) * gain;
}

// Element j of every head is turned together with element j + head_dim / 2. x [B, heads, T, D].
at::Tensor TorchTransformer::rotate(const at::Tensor& x) const {
  const at::Tensor positions = at::arange(x.size(2), inverse_frequencies_.options()).unsqueeze(1);
  const at::Tensor angles = positions * inverse_frequencies_;
  const at::Tensor cosine = (at::cos(angles) * attention_factor_).to(options_);
  const at::Tensor sine = (at::sin(angles) * attention_factor_).to(options_);
  const auto halves = x.chunk(2, -1);
  return at::cat({halves[0] * cosine - halves[1] * sine, halves[1] * cosine + halves[0] * sine},
                 -1);
}

// [T, T]: 0 where query i sees key j, else minus infinity, which softmax turns into a weight of 0.
// A sliding window hides what is further back than it.
at::Tensor TorchTransformer::mask(int64_t length) const {
  const at::Tensor seen = at::ones({length, length}, options_.dtype(at::kBool));
  at::Tensor visible = at::tril(seen);
  if (config_.sliding_window > 0) visible = at::triu(visible, 1 - config_.sliding_window);
  return at::zeros({length, length}, options_)
      .masked_fill(visible.logical_not(), -std::numeric_limits<double>::infinity());
}

// q [B, kv_heads, group, T, D], scaled, k and v [B, kv_heads, T, D] -> as q. A block of queries at
// a time, over the keys that its last one sees. Scores are not rounded to the dtype of products: an
// error of 2^-9 of a score of 20 would change a weight by 4 %.
at::Tensor TorchTransformer::attend_heads(const at::Tensor& q, const at::Tensor& k,
                                          const at::Tensor& v) const {
  const int64_t batch = q.size(0), kv_heads = q.size(1), group = q.size(2), length = q.size(3);
  const at::Tensor hidden_keys = mask(length);
  std::vector<at::Tensor> blocks;
  for (int64_t first = 0; first < length; first += kQueryBlock) {
    const int64_t last = std::min(length, first + kQueryBlock), rows = last - first;
    const int64_t window = config_.sliding_window;
    const int64_t begin = window > 0 ? std::max<int64_t>(0, first - window + 1) : 0;
    // Query heads of a group share a key-value head: their rows meet its keys in one product.
    const at::Tensor queries =
        q.slice(3, first, last).reshape({batch, kv_heads, group * rows, q.size(4)});
    const at::Tensor scores = at::matmul(queries, k.slice(2, begin, last).transpose(2, 3))
                                  .view({batch, kv_heads, group, rows, last - begin});
    const at::Tensor weights =
        at::softmax(scores + hidden_keys.slice(0, first, last).slice(1, begin, last), -1)
            .to(v.scalar_type())
            .view({batch, kv_heads, group * rows, last - begin});
    blocks.push_back(at::matmul(weights, v.slice(2, begin, last))
                         .view({batch, kv_heads, group, rows, v.size(3)}));
  }
  return at::cat(blocks, 3);
}

at::Tensor TorchTransformer::attend(const TorchLayer& layer, const at::Tensor& x) const {
  const int64_t batch = x.size(0), length = x.size(1), head_dim = config_.head_dim;
  const int64_t heads = config_.num_attention_heads, kv_heads = config_.num_key_value_heads;
  const auto split = [&](const at::Tensor& y, int64_t count) {
    return y.view({batch, length, count, head_dim});
  };
  const auto values = c10::typeMetaToScalarType(options_.dtype());
  at::Tensor q = split(layer.q.apply(x).to(values), heads);
  at::Tensor k = split(layer.k.apply(x).to(values), kv_heads);
  if (config_.qk_norm) {
    q = norm(q, layer.q_norm);
    k = norm(k, layer.k_norm);
  }
  q = rotate(q.transpose(1, 2)) / std::sqrt(static_cast<double>(head_dim));
  k = rotate(k.transpose(1, 2));
  const at::Tensor v = split(layer.v.apply(x), kv_heads).transpose(1, 2).to(dots_);
  const at::Tensor mixed =
      attend_heads(q.view({batch, kv_heads, heads / kv_heads, length, head_dim}), k, v);
  return layer.o.apply(mixed.view({batch, heads, length, head_dim})
                           .transpose(1, 2)
                           .reshape({batch, length, heads * head_dim}));
}

}  // namespace neuronmm::finetune
