#include "finetune/torch_transformer.h"

#include <cmath>

#include "finetune/torch_attention.h"
#include "finetune/torch_gate.h"
#include "finetune/torch_norm.h"
#include "model/rope.h"
#include "model/transformer.h"
#include "model/weight_reader.h"

namespace neuronmm::finetune {
namespace {

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
    matrix.grid = KeptGrid(view, rounding_->format_of(matrix.name));
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
  if (rounded.defined()) return matrix_product(rounded_activations(x), rounded.to(dots).t());
  const at::Tensor& copy = narrow.of(weight, dots);
  const at::Tensor y =
      weight.requires_grad() ? product(x, weight, copy) : matrix_product(x, copy.t());
  if (!a.defined()) return y;
  return y + matrix_product(matrix_product(x, a.to(dots).t()), b.to(dots).t()) * scale;
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
                                                bool whole, Layers layers) {
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
    if (layers == Layers::kOneByOne) {
      model.layers_.emplace_back();
      continue;
    }
    NMM_ASSIGN(auto weights, loader.layer(layer));
    weights.whole = whole;
    for (TorchLinear* const linear : {&weights.q, &weights.k, &weights.v, &weights.o}) {
      if (whole) break;  // else never trained: rounded once
      at::Tensor& used = rounding ? linear->w.rounded : linear->w.weight;
      used = used.to(dots);
    }
    model.layers_.push_back(std::move(weights));
  }
  const auto rotary = model::rotary_embedding(config);
  model.inverse_frequencies_ =
      at::tensor(at::ArrayRef<float>(rotary.inverse_frequencies)).to(options.dtype(at::kDouble));
  model.attention_factor_ = rotary.attention_factor;
  return model;
}

Status TorchTransformer::read_layer(int64_t index) {
  const std::optional<io::Quantization> none;
  const Loader loader(checkpoint_, config_, options_, none);
  NMM_ASSIGN(layers_[static_cast<size_t>(index)], loader.layer(index));
  checkpoint_.release_pages();
  return {};
}

void TorchTransformer::freeze() {
  for (TorchLayer& layer : layers_) {
    for (TorchLinear* const linear :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      for (TorchMatrix* const matrix :
           {&linear->w, &linear->u, &linear->v, &linear->in.map, &linear->out.map}) {
        if (matrix->weight.defined()) matrix->weight = matrix->weight.to(dots_);
      }
    }
    at::Tensor& shared = layer.mlp_in.map.weight;
    if (shared.defined()) shared = shared.to(dots_);
  }
}

at::Tensor TorchTransformer::embed(const at::Tensor& ids) const {
  return at::embedding(embedding_, ids);
}

at::Tensor TorchTransformer::run_layers(at::Tensor hidden, int64_t first, int64_t last) const {
  if (first == last) return hidden;
  TorchHidden between = {std::move(hidden), {}};
  for (int64_t i = first; i < last; ++i) between = behind_layer(between, i, {});
  return between.sum + between.change;
}

at::Tensor TorchTransformer::run_layer(const at::Tensor& hidden, int64_t index,
                                       const MlpOffsets& offsets) const {
  const TorchHidden behind = behind_layer({hidden, {}}, index, offsets);
  return behind.sum + behind.change;
}

// The same layer as model/transformer.cc, in operations that have a gradient. A test compares the
// logits of both.
TorchHidden TorchTransformer::behind_layer(const TorchHidden& hidden, int64_t index,
                                           const MlpOffsets& offsets) const {
  const TorchLayer& layer = layers_[static_cast<size_t>(index)];
  const double eps = config_.rms_norm_eps;
  const SumAndNorm input =
      hidden.change.defined()
          ? add_and_norm(hidden.sum, hidden.change, layer.input_norm, eps)
          : SumAndNorm{hidden.sum, rms_norm(hidden.sum, layer.input_norm, eps, dots_)};
  const at::Tensor attended = attend(layer, input.norm);
  const SumAndNorm middle =
      add_and_norm(input.sum, attended.to(dots_), layer.post_attention_norm, eps);
  const at::Tensor x = layer.mlp_in.narrow(middle.norm);
  const at::Tensor gate = shifted(layer.gate.apply(x), offsets.gate);
  const at::Tensor up = shifted(layer.up.apply(x), offsets.up);
  const at::Tensor gated = silu_times(gate.to(dots_), up.to(dots_));
  return {middle.sum, shifted(layer.down.apply(gated), offsets.down).to(dots_)};
}

at::Tensor TorchTransformer::final_norm(const at::Tensor& rows) const {
  // Beside rounded weights the kernels round it in two terms, finer than fp32 sums show.
  return rms_norm(rows, final_norm_, config_.rms_norm_eps, dots_);
}

at::Tensor TorchTransformer::logits(const at::Tensor& rows) const {
  return matrix_product(final_norm(rows), lm_head_.t());
}

// Element j of every head is turned together with element j + head_dim / 2. Angles are computed in
// fp64: at long positions fp32 would lose them.
const Rotation& TorchTransformer::rotation(int64_t length) const {
  if (rotation_.cosine.defined() && rotation_.cosine.size(0) == length) return rotation_;
  const at::Tensor positions = at::arange(length, inverse_frequencies_.options()).unsqueeze(1);
  const at::Tensor angles = positions * inverse_frequencies_;
  rotation_ = {(at::cos(angles) * attention_factor_).to(options_),
               (at::sin(angles) * attention_factor_).to(options_)};
  return rotation_;
}

at::Tensor TorchTransformer::attend(const TorchLayer& layer, const at::Tensor& x) const {
  const int64_t batch = x.size(0), length = x.size(1), head_dim = config_.head_dim;
  const int64_t heads = config_.num_attention_heads, kv_heads = config_.num_key_value_heads;
  const auto split = [&](const at::Tensor& y, int64_t count) {
    return y.view({batch, length, count, head_dim});
  };
  at::Tensor q = split(layer.q.apply(x).to(dots_), heads);
  at::Tensor k = split(layer.k.apply(x).to(dots_), kv_heads);
  if (config_.qk_norm) {
    const auto values = c10::typeMetaToScalarType(options_.dtype());
    q = rms_norm(q.to(values), layer.q_norm, config_.rms_norm_eps, values);
    k = rms_norm(k.to(values), layer.k_norm, config_.rms_norm_eps, values);
  }
  const Rotation& turn = rotation(length);
  q = rotate_heads(q, turn, 1.0 / std::sqrt(static_cast<double>(head_dim)));
  k = rotate_heads(k, turn, 1.0);
  const at::Tensor v = split(layer.v.apply(x), kv_heads).transpose(1, 2).to(dots_).contiguous();
  return layer.o.apply(causal_attention(
      q.view({batch, kv_heads, heads / kv_heads, length, head_dim}), k, v, config_.sliding_window));
}

}  // namespace neuronmm::finetune
