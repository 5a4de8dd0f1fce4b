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

  at::Tensor gains(const TensorView& norm) const {
    const at::Tensor stored = tensor(norm);
    const bool plain = config_.gain_offset == 0.0 || !stored.defined();
    return plain ? stored : stored + config_.gain_offset;
  }

  Result<TorchLayer> layer(int64_t index) const {
    NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint_, config_, index));
    const std::string prefix =
        fmt::format("{}layers.{}.", model::tensor_prefix(checkpoint_), index);
    TorchLayer layer;
    layer.input_norm = gains(weights.input_norm);
    layer.post_attention_norm = gains(weights.post_attention_norm);
    layer.attention_output_norm = gains(weights.attention_output_norm);
    layer.mlp_output_norm = gains(weights.mlp_output_norm);
    layer.q_norm = gains(weights.q_norm);
    layer.k_norm = gains(weights.k_norm);
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
  NMM_TRY(io::refuse_mixtures(config, folder.string(), "training",
                              "train the original model with another program"));
  if (!rounding) NMM_TRY(refuse_quantized(checkpoint));
  const Loader loader(checkpoint, config, options, rounding);
  const std::string prefix = model::tensor_prefix(checkpoint);
  // Every matrix and shape is required as in inference, so that training and inference refuse the
  // same folders.
  const Shape table_shape = {config.vocab_size, config.hidden_size};
  const std::string table_name = prefix + "embed_tokens.weight";
  NMM_ASSIGN(const auto table, model::require_weight(checkpoint, config, table_name, table_shape));
  NMM_ASSIGN(const auto norm, checkpoint.require(prefix + "norm.weight", {config.hidden_size}));
  model.final_norm_ = loader.gains(norm);
  if (config.logit_divisor != 1.0) model.final_norm_ = model.final_norm_ / config.logit_divisor;
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
  model.rotary_ = model::RotaryTables(config);
  model.rotations_.resize(config.ropes.size());
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
  const at::Tensor rows = at::embedding(embedding_, ids);
  return config_.embedding_scale == 1.0 ? rows : rows * config_.embedding_scale;
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
  const auto mlp = [&](const at::Tensor& normed) {
    const at::Tensor x = layer.mlp_in.narrow(normed);
    const at::Tensor gate = add_offset(layer.gate.apply(x), offsets.gate);
    const at::Tensor up = add_offset(layer.up.apply(x), offsets.up);
    const at::Tensor gated =
        gate_times(config_.activation, gate.to(product_type_), up.to(product_type_));
    return add_offset(layer.down.apply(gated), offsets.down).to(product_type_);
  };
  if (config_.output_norms || config_.residual_scale != 1.0) {
    const auto normed = [&](const at::Tensor& x, const at::Tensor& gain) {
      return gain.defined() ? rms_norm(x, gain, eps, product_type_) : x.to(product_type_);
    };
    const at::Tensor sum =
        hidden.update.defined() ? hidden.residual + hidden.update : hidden.residual;
    const at::Tensor attended = attend(index, normed(sum, layer.input_norm)).to(product_type_);
    const at::Tensor middle = sum + added(attended, layer.attention_output_norm);
    return {middle, added(mlp(normed(middle, layer.post_attention_norm)), layer.mlp_output_norm)};
  }
  const SumAndNorm input =
      hidden.update.defined()
          ? add_and_norm(hidden.residual, hidden.update, layer.input_norm, eps)
          : SumAndNorm{hidden.residual,
                       rms_norm(hidden.residual, layer.input_norm, eps, product_type_)};
  const at::Tensor attended = attend(index, input.norm);
  const SumAndNorm middle =
      add_and_norm(input.sum, attended.to(product_type_), layer.post_attention_norm, eps);
  return {middle.sum, mlp(middle.norm)};
}

at::Tensor TorchTransformer::added(const at::Tensor& output, const at::Tensor& norm) const {
  at::Tensor y = output;
  if (norm.defined()) {
    const auto values = c10::typeMetaToScalarType(options_.dtype());
    y = rms_norm(y.to(values), norm, config_.rms_norm_eps, product_type_);
  }
  return config_.residual_scale == 1.0 ? y : y * config_.residual_scale;
}

at::Tensor TorchTransformer::final_norm(const at::Tensor& rows) const {
  // With rounded weights the kernels round this norm in two terms, which are finer than what sums
  // in fp32 show. It is therefore not rounded here.
  return rms_norm(rows, final_norm_, config_.rms_norm_eps, product_type_);
}

at::Tensor TorchTransformer::logits(const at::Tensor& rows) const {
  return capped(matrix_product(final_norm(rows), lm_head_.t()));
}

at::Tensor TorchTransformer::capped(const at::Tensor& logits) const {
  if (config_.logit_cap == 0.0) return logits;
  return at::tanh(logits / config_.logit_cap) * config_.logit_cap;
}

// Angles are computed in fp64, because at long positions fp32 would be too coarse. A batch longer
// than the original context of longrope turns by the list for long sequences.
const Rotation& TorchTransformer::rotation(int64_t table, int64_t length) const {
  Rotation& known = rotations_.at(static_cast<size_t>(table));
  if (known.cosine.defined() && known.cosine.size(0) == length) return known;
  const ops::RotaryEmbedding& rotary = rotary_.at(table);
  const bool is_long = length > config_.long_rope_from();
  const auto& frequencies = is_long ? rotary.long_inverse_frequencies : rotary.inverse_frequencies;
  const at::Tensor inverse =
      at::tensor(at::ArrayRef<float>(frequencies)).to(options_.dtype(at::kDouble));
  const at::Tensor positions = at::arange(length, inverse.options()).unsqueeze(1);
  const at::Tensor angles = positions * inverse;
  const double factor = rotary.attention_factor;
  known = {(at::cos(angles) * factor).to(options_), (at::sin(angles) * factor).to(options_)};
  return known;
}

// The first pairs of each head turn: element j together with element j + their number. What is
// behind them is only scaled.
at::Tensor TorchTransformer::turned(const at::Tensor& x, int64_t table, double scale) const {
  const auto unturned = [&](const at::Tensor& part) {
    return part.to(c10::typeMetaToScalarType(options_.dtype())).transpose(1, 2) * scale;
  };
  if (table == io::kNoRope) return unturned(x).contiguous();
  const Rotation& angles = rotation(table, x.size(1));
  const int64_t width = 2 * angles.cosine.size(1);
  if (width == x.size(3)) return rotate_heads(x, angles, scale);
  return at::cat(
      {rotate_heads(x.slice(3, 0, width).contiguous(), angles, scale), unturned(x.slice(3, width))},
      -1);
}

// Multiplies each query by the factor of its position (io::QueryTemperature).
at::Tensor TorchTransformer::heat(const at::Tensor& q) const {
  const io::QueryTemperature& temperature = config_.query_temperature;
  if (temperature.beta == 0.0) return q;
  const at::Tensor positions = at::arange(q.size(2), q.options().dtype(at::kDouble));
  const auto context = static_cast<double>(temperature.original_context);
  const at::Tensor factors = at::log1p(at::floor(positions / context)) * temperature.beta + 1.0;
  return q * factors.to(q.scalar_type()).unsqueeze(1);
}

at::Tensor TorchTransformer::attend(int64_t index, const at::Tensor& x) const {
  const TorchLayer& layer = layers_[static_cast<size_t>(index)];
  const io::LayerAttention own = config_.attention_of(index);
  const int64_t batch = x.size(0), length = x.size(1), head_dim = config_.head_dim;
  const int64_t heads = config_.num_attention_heads, kv_heads = config_.num_key_value_heads;
  const auto split = [&](const at::Tensor& y, int64_t count) {
    return y.view({batch, length, count, head_dim});
  };
  const auto values = c10::typeMetaToScalarType(options_.dtype());
  const auto norm = [&](const at::Tensor& y, const at::Tensor& gain) {
    return rms_norm(y.to(values), gain, config_.rms_norm_eps, values);
  };
  const double scale = config_.score_scale != 0.0 ? config_.score_scale
                                                  : 1.0 / std::sqrt(static_cast<double>(head_dim));
  const auto project = [&](const TorchLinear& linear, const at::Tensor& gain, int64_t count,
                           double times) {
    at::Tensor y = linear.apply(x).to(product_type_);
    if (config_.qk_norm == io::QkNorm::kWholeWidth) y = norm(y, gain);
    y = split(y, count);
    const bool per_head = config_.qk_norm == io::QkNorm::kPerHead;
    if (per_head && !config_.qk_norm_after_rope) y = norm(y, gain);
    if (!per_head || !config_.qk_norm_after_rope) return turned(y, own.rope, times);
    return norm(turned(y, own.rope, 1.0), gain) * times;
  };
  const at::Tensor q = heat(project(layer.q, layer.q_norm, heads, scale));
  const at::Tensor k = project(layer.k, layer.k_norm, kv_heads, 1.0);
  const at::Tensor v =
      split(layer.v.apply(x), kv_heads).transpose(1, 2).to(product_type_).contiguous();
  return layer.o.apply(
      causal_attention(q.view({batch, kv_heads, heads / kv_heads, length, head_dim}), k, v,
                       own.window, config_.score_cap));
}

}  // namespace neuronmm::finetune
