#include "finetune/torch_transformer.h"

#include <cmath>

#include "finetune/torch_attention.h"
#include "finetune/torch_gate.h"
#include "finetune/torch_norm.h"
#include "io/model_folder.h"
#include "model/rope.h"
#include "model/tensor_specs.h"
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

  // Copies a tensor by way of fp32, whatever the dtypes of the checkpoint and of training are.
  at::Tensor tensor(const ops::WeightView& view) const {
    if (view.empty()) return {};
    at::Tensor values = at::empty(view.shape, at::TensorOptions(at::kFloat));
    const int64_t columns =
        view.shape.back();  // row by row, because rounded weights have scales per row
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
    const auto format = model::rounding_of(matrix.name, config_, *rounding_);
    if (!format) return matrix;
    matrix.grid = KeptGrid(view, *format);
    matrix.rounded =
        view.quantized() ? matrix.weight.clone() : rounded_weight(matrix.weight, matrix.grid);
    return matrix;
  }

 private:
  // Names are kept with the tensors, because trained tensors are written back under them. A dense
  // layer has only w, and a low-rank layer only u and v. An absent matrix is an undefined tensor.
  TorchLinear linear(const ops::LinearWeight& weight, const std::string& stem) const {
    TorchLinear linear;
    linear.w = matrix(stem + "_proj.weight", weight.w_t);
    // Checkpoints cross the names of u and v: see model/layer_weights.cc.
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
    pivots.others = indices(ops::non_pivots(weight));
    pivots.order = at::argsort(at::cat({pivots.index, pivots.others}));
    pivots.map = matrix(stem + "_pivot_proj.weight", weight.map_t);
    return pivots;
  }

  // An MLP of fewer neurons has the same tensors as a dense one. Only the compression record in
  // config.json says that it was larger.
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

at::Tensor add_offset(const at::Tensor& x, const at::Tensor& offset) {
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

// The adapter's product is small and computed separately from that of the weight, which is not
// trained.
at::Tensor TorchMatrix::apply(const at::Tensor& x) const {
  const at::ScalarType product_type = x.scalar_type();
  if (rounded.defined())
    return matrix_product(rounded_activations(x), rounded.to(product_type).t());
  const at::Tensor& copy = cast.get(weight, product_type);
  const at::Tensor y =
      weight.requires_grad() ? product(x, weight, copy) : matrix_product(x, copy.t());
  if (!a.defined()) return y;
  return y +
         matrix_product(matrix_product(x, a.to(product_type).t()), b.to(product_type).t()) * scale;
}

at::Tensor TorchPivots::narrow(const at::Tensor& x) const {
  if (empty()) return x;
  return at::index_select(x, -1, index) + map.apply(at::index_select(x, -1, others));
}

at::Tensor TorchPivots::widen(const at::Tensor& z) const {
  if (empty()) return z;
  return at::index_select(at::cat({z, map.apply(z)}, -1), -1, order);
}

// Computes x U V as two products, because U·V would have the size of the dense weight.
at::Tensor TorchLinear::apply(const at::Tensor& x) const {
  const at::Tensor y = low_rank() ? v.apply(u.apply(x)) : out.widen(w.apply(in.narrow(x)));
  return bias.defined() ? y + bias : y;
}

Result<TorchTransformer> TorchTransformer::load(const std::filesystem::path& folder,
                                                const at::TensorOptions& options,
                                                at::ScalarType product_type,
                                                const std::optional<io::Quantization>& rounding,
                                                bool all_matrices, Layers layers) {
  TorchTransformer model;
  NMM_ASSIGN(io::ModelFolder opened, io::open_model(folder));
  model.config_ = std::move(opened.config);
  model.checkpoint_ = std::move(opened.checkpoint);
  model.options_ = options;
  model.product_type_ = product_type;
  const io::ModelConfig& config = model.config_;
  const io::Checkpoint& checkpoint = model.checkpoint_;
  if (!rounding) NMM_TRY(refuse_quantized(checkpoint));
  const Loader loader(checkpoint, config, options, rounding);
  const std::string prefix = model::tensor_prefix(checkpoint);
  // Every matrix and shape is required as in inference, so that training and inference refuse the
  // same folders.
  const Shape table_shape = {config.vocab_size, config.hidden_size};
  const std::string table_name = prefix + "embed_tokens.weight";
  NMM_ASSIGN(const auto table, model::require_weight(checkpoint, config, table_name, table_shape));
  NMM_ASSIGN(const auto norm, checkpoint.require(prefix + "norm.weight", {config.hidden_size}));
  model.final_norm_ = loader.tensor(norm);
  if (config.tie_word_embeddings) {
    model.embedding_ = loader.matrix(table_name, table).used();
    model.lm_head_ = model.embedding_.to(product_type);
  } else {
    NMM_ASSIGN(const auto head,
               model::require_weight(checkpoint, config, "lm_head.weight", table_shape));
    model.embedding_ = loader.matrix(table_name, table).used();
    model.lm_head_ = loader.matrix("lm_head.weight", head).used().to(product_type);
  }
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (layers == Layers::kOneByOne) {
      model.layers_.emplace_back();
      continue;
    }
    NMM_ASSIGN(auto weights, loader.layer(layer));
    weights.all_matrices = all_matrices;
    for (TorchLinear* const linear : {&weights.q, &weights.k, &weights.v, &weights.o}) {
      if (all_matrices)
        break;  // they are never trained without `all_matrices`, so one conversion is enough
      at::Tensor& used = rounding ? linear->w.rounded : linear->w.weight;
      used = used.to(product_type);
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
        if (matrix->weight.defined()) matrix->weight = matrix->weight.to(product_type_);
      }
    }
    at::Tensor& shared = layer.mlp_in.map.weight;
    if (shared.defined()) shared = shared.to(product_type_);
  }
}

at::Tensor TorchTransformer::embed(const at::Tensor& ids) const {
  return at::embedding(embedding_, ids);
}

at::Tensor TorchTransformer::run_layers(at::Tensor hidden, int64_t first, int64_t last) const {
  if (first == last) return hidden;
  TorchHidden state = {std::move(hidden), {}};
  for (int64_t i = first; i < last; ++i) state = apply_layer(state, i, {});
  return state.residual + state.update;
}

at::Tensor TorchTransformer::run_layer(const at::Tensor& hidden, int64_t index,
                                       const MlpOffsets& offsets) const {
  const TorchHidden output = apply_layer({hidden, {}}, index, offsets);
  return output.residual + output.update;
}

// Computes the same layer as model/transformer.cc in operations that have a gradient. A test
// compares the logits of both.
TorchHidden TorchTransformer::apply_layer(const TorchHidden& hidden, int64_t index,
                                          const MlpOffsets& offsets) const {
  const TorchLayer& layer = layers_[static_cast<size_t>(index)];
  const double eps = config_.rms_norm_eps;
  const SumAndNorm input =
      hidden.update.defined()
          ? add_and_norm(hidden.residual, hidden.update, layer.input_norm, eps)
          : SumAndNorm{hidden.residual,
                       rms_norm(hidden.residual, layer.input_norm, eps, product_type_)};
  const at::Tensor attended = attend(layer, input.norm);
  const SumAndNorm middle =
      add_and_norm(input.sum, attended.to(product_type_), layer.post_attention_norm, eps);
  const at::Tensor x = layer.mlp_in.narrow(middle.norm);
  const at::Tensor gate = add_offset(layer.gate.apply(x), offsets.gate);
  const at::Tensor up = add_offset(layer.up.apply(x), offsets.up);
  const at::Tensor gated = silu_times(gate.to(product_type_), up.to(product_type_));
  return {middle.sum, add_offset(layer.down.apply(gated), offsets.down).to(product_type_)};
}

at::Tensor TorchTransformer::final_norm(const at::Tensor& rows) const {
  // With rounded weights the kernels round this norm in two terms, which are finer than what sums
  // in fp32 show. It is therefore not rounded here.
  return rms_norm(rows, final_norm_, config_.rms_norm_eps, product_type_);
}

at::Tensor TorchTransformer::logits(const at::Tensor& rows) const {
  return matrix_product(final_norm(rows), lm_head_.t());
}

// Element j of every head is turned together with element j + head_dim / 2. Angles are computed in
// fp64, because at long positions fp32 would be too coarse.
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
  at::Tensor q = split(layer.q.apply(x).to(product_type_), heads);
  at::Tensor k = split(layer.k.apply(x).to(product_type_), kv_heads);
  if (config_.qk_norm != io::QkNorm::kNone) {
    const auto values = c10::typeMetaToScalarType(options_.dtype());
    q = rms_norm(q.to(values), layer.q_norm, config_.rms_norm_eps, values);
    k = rms_norm(k.to(values), layer.k_norm, config_.rms_norm_eps, values);
  }
  const Rotation& angles = rotation(length);
  q = rotate_heads(q, angles, 1.0 / std::sqrt(static_cast<double>(head_dim)));
  k = rotate_heads(k, angles, 1.0);
  const at::Tensor v =
      split(layer.v.apply(x), kv_heads).transpose(1, 2).to(product_type_).contiguous();
  return layer.o.apply(
      causal_attention(q.view({batch, kv_heads, heads / kv_heads, length, head_dim}), k, v,
                       config_.attention_of(0).window));
}

}  // namespace neuronmm::finetune
