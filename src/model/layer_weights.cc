// From the tensor names of Hugging Face checkpoints to LayerWeights.
//
// The one place that reads the reference system's names for low-rank factors, which are crossed:
// `X_v_proj.weight` [r, in] is applied FIRST and is our U^T, `X_u_proj.weight` [out, r] is applied
// second and is our V^T.

#include "model/layer_weights.h"

#include <cmath>
#include <set>

#include "io/quantization.h"

namespace neuronmm::model {
namespace {

// Reads the tensors of one layer and remembers which it has read, so that what is left over is
// found.
class LayerReader {
 public:
  LayerReader(const io::Checkpoint& checkpoint, const io::ModelConfig& config, int64_t layer)
      : checkpoint_(checkpoint),
        config_(config),
        layer_(layer),
        prefix_(fmt::format("{}layers.{}.", tensor_prefix(checkpoint), layer)) {}

  Result<LayerWeights> read() {
    LayerWeights weights;
    const Shape hidden = {config_.hidden_size};
    NMM_ASSIGN(weights.input_norm, require("input_layernorm.weight", hidden));
    NMM_ASSIGN(weights.post_attention_norm, require("post_attention_layernorm.weight", hidden));
    NMM_TRY(read_attention(weights));
    NMM_TRY(read_mlp(weights.mlp));
    NMM_TRY(refuse_unread());
    return weights;
  }

 private:
  Status read_attention(LayerWeights& weights) {
    const int64_t hidden = config_.hidden_size;
    const int64_t q_width = config_.num_attention_heads * config_.head_dim;
    const int64_t kv_width = config_.num_key_value_heads * config_.head_dim;
    NMM_ASSIGN(weights.q, projection("q", hidden, q_width, config_.attention_bias));
    NMM_ASSIGN(weights.k, projection("k", hidden, kv_width, config_.attention_bias));
    NMM_ASSIGN(weights.v, projection("v", hidden, kv_width, config_.attention_bias));
    NMM_ASSIGN(weights.o, projection("o", q_width, hidden, config_.attention_output_bias));
    if (!config_.qk_norm) return {};
    NMM_ASSIGN(weights.q_norm, require("self_attn.q_norm.weight", {config_.head_dim}));
    NMM_ASSIGN(weights.k_norm, require("self_attn.k_norm.weight", {config_.head_dim}));
    return {};
  }

  Status read_mlp(ops::MlpWeight& mlp) {
    const int64_t hidden = config_.hidden_size, inner = config_.intermediate_size;
    NMM_ASSIGN(mlp.gate, mlp_matrix("gate", hidden, inner));
    NMM_ASSIGN(mlp.up, mlp_matrix("up", hidden, inner));
    NMM_ASSIGN(mlp.down, mlp_matrix("down", inner, hidden));
    return check_recorded_ranks(mlp);
  }

  Result<ops::LinearWeight> projection(std::string_view letter, int64_t in, int64_t out,
                                       bool bias) {
    const std::string name = fmt::format("self_attn.{}_proj.", letter);
    ops::LinearWeight weight;
    NMM_ASSIGN(weight.w_t, require_matrix(name + "weight", {out, in}));
    if (bias) {
      NMM_ASSIGN(weight.bias, require(name + "bias", {out}));
    }
    return weight;
  }

  // Dense or as two factors. Both at once would leave it open which one the model is.
  Result<ops::LinearWeight> mlp_matrix(std::string_view which, int64_t in, int64_t out) {
    const std::string dense = fmt::format("mlp.{}_proj.weight", which);
    const std::string first = fmt::format("mlp.{}_v_proj.weight", which);
    const std::string second = fmt::format("mlp.{}_u_proj.weight", which);
    if (has(dense) && (has(first) || has(second))) {
      return fail("{}: expected {} either dense or as two factors, found both {} and {}", folder(),
                  prefix_ + "mlp." + std::string(which), dense, has(first) ? first : second);
    }
    if (has(dense)) {
      ops::LinearWeight weight;
      NMM_ASSIGN(weight.w_t, require_matrix(dense, {out, in}));
      return weight;
    }
    if (!has(first) && !has(second)) {
      return fail("{}: expected tensor {} or its factors {} and {}, found neither", folder(),
                  prefix_ + dense, first, second);
    }
    if (!has(first) || !has(second)) {
      return fail("{}: expected both factors {} and {}, found only {}", folder(), prefix_ + first,
                  prefix_ + second, has(first) ? first : second);
    }
    return factors(first, second, in, out);
  }

  // The rank is not in config.json of every such folder (the reference system writes none); the
  // tensors' shapes say it, and both must agree.
  Result<ops::LinearWeight> factors(const std::string& first, const std::string& second, int64_t in,
                                    int64_t out) {
    const Shape& u_shape = checkpoint_.tensors().at(prefix_ + first).shape;
    const Shape& v_shape = checkpoint_.tensors().at(prefix_ + second).shape;
    if (u_shape.size() != 2 || v_shape.size() != 2 || u_shape[0] != v_shape[1] || u_shape[0] == 0) {
      return fail("{}: expected {} [r, {}] and {} [{}, r] with one rank r > 0, found {} and {}",
                  folder(), prefix_ + first, in, second, out, shape_string(u_shape),
                  shape_string(v_shape));
    }
    ops::LinearWeight weight;
    NMM_ASSIGN(weight.u_t, require_matrix(first, {u_shape[0], in}));
    NMM_ASSIGN(weight.v_t, require_matrix(second, {out, u_shape[0]}));
    return weight;
  }

  // A folder of ours records its ranks. Tensors that differ from the record come from another
  // model.
  Status check_recorded_ranks(const ops::MlpWeight& mlp) const {
    if (!config_.compression) return {};
    const auto& records = config_.compression->ranks;
    if (layer_ >= static_cast<int64_t>(records.size())) {
      return fail("{}: expected the ranks of {} layers in config.json, found {}", folder(),
                  config_.num_hidden_layers, records.size());
    }
    const io::MlpRanks& recorded = records[static_cast<size_t>(layer_)];
    const io::MlpRanks found = {mlp.gate.rank(), mlp.up.rank(), mlp.down.rank()};
    if (found.gate == recorded.gate && found.up == recorded.up && found.down == recorded.down)
      return {};
    return fail(
        "{}: expected the ranks of {}mlp (gate, up, down; 0 = dense) to be {}, {}, {} as "
        "config.json records, found tensors of ranks {}, {}, {}",
        folder(), prefix_, recorded.gate, recorded.up, recorded.down, found.gate, found.up,
        found.down);
  }

  // A weight that the config does not speak of would be dropped silently and the model be wrong.
  // Old Llama exports store the rotary frequencies, which the config already defines.
  Status refuse_unread() const {
    const auto& tensors = checkpoint_.tensors();
    for (auto it = tensors.lower_bound(prefix_);
         it != tensors.end() && it->first.starts_with(prefix_); ++it) {
      const auto& [name, tensor] = *it;
      if (read_.contains(name) || !is_float(tensor.dtype) ||
          name.ends_with(".rotary_emb.inv_freq")) {
        continue;
      }
      return fail("{}: expected only the weights that config.json describes for {}, found {} {}",
                  folder(), architecture_name(config_.architecture), name,
                  shape_string(tensor.shape));
    }
    return {};
  }

  bool has(const std::string& name) const { return checkpoint_.has(prefix_ + name); }
  Result<TensorView> require(const std::string& name, const Shape& shape) {
    read_.insert(prefix_ + name);
    return checkpoint_.require(prefix_ + name, shape);
  }
  // An int8 weight is two tensors; both count as read.
  Result<ops::WeightView> require_matrix(const std::string& name, const Shape& shape) {
    NMM_ASSIGN(auto weight, require_weight(checkpoint_, config_, prefix_ + name, shape));
    read_.insert(prefix_ + name);
    if (weight.quantized()) read_.insert(prefix_ + name + io::kScaleEnding);
    return weight;
  }
  std::string folder() const { return checkpoint_.folder().string(); }

  const io::Checkpoint& checkpoint_;
  const io::ModelConfig& config_;
  int64_t layer_;
  std::string prefix_;
  std::set<std::string> read_;
};

static_assert(io::kInt8GroupSize == ops::kQuantGroup, "what is stored is what backends compute");

// The scales of the int8 weight `name`: [rows, groups]. All are looked at: one negative or infinite
// scale would turn into wrong text without any other sign.
Result<TensorView> require_scales(const io::Checkpoint& checkpoint, const std::string& name,
                                  int64_t rows, int64_t groups) {
  NMM_ASSIGN(const TensorView scales, checkpoint.require(name, {rows, groups}));
  const auto wrong = [&](std::string_view expected, const std::string& found) {
    return fail("{}: tensor {:?}: expected {}, found {}", checkpoint.folder().string(), name,
                expected, found);
  };
  if (scales.dtype != DType::kBF16) return wrong("BF16", std::string(dtype_name(scales.dtype)));
  std::vector<float> row(static_cast<size_t>(groups));
  for (int64_t i = 0; i < rows; ++i) {
    to_floats(scales, i * groups, groups, row.data());
    for (int64_t j = 0; j < groups; ++j) {
      const float scale = row[static_cast<size_t>(j)];
      if (std::isfinite(scale) && scale >= 0) continue;
      return wrong("finite scales of 0 or more", fmt::format("{} at [{}, {}]", scale, i, j));
    }
  }
  return scales;
}

}  // namespace

// A weight is what its tensor's dtype says, and I8 only in a folder that declares int8 weights:
// other programs store other formats as I8, with other scales.
Result<ops::WeightView> require_weight(const io::Checkpoint& checkpoint,
                                       const io::ModelConfig& config, const std::string& name,
                                       const Shape& shape) {
  const auto found = checkpoint.tensors().find(name);
  if (found == checkpoint.tensors().end() || found->second.dtype != DType::kI8) {
    NMM_ASSIGN(const TensorView weight, checkpoint.require(name, shape));
    return ops::WeightView(weight);
  }
  const std::string folder = checkpoint.folder().string();
  if (!config.int8_weights) {
    return fail(
        "{}: tensor {:?}: expected a float dtype, found I8 (config.json has no "
        "neuronmm_quantization)",
        folder, name);
  }
  const TensorView& weight = found->second;
  if (weight.shape != shape) {
    return fail("{}: tensor {:?}: expected shape {}, found {}", folder, name, shape_string(shape),
                shape_string(weight.shape));
  }
  const int64_t groups = (shape[1] + ops::kQuantGroup - 1) / ops::kQuantGroup;
  NMM_ASSIGN(const TensorView scales,
             require_scales(checkpoint, name + io::kScaleEnding, shape[0], groups));
  return ops::WeightView(weight, scales);
}

// Some exports leave out "model." in front of every name.
std::string tensor_prefix(const io::Checkpoint& checkpoint) {
  return checkpoint.has("embed_tokens.weight") ? "" : "model.";
}

Result<LayerWeights> layer_weights(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                                   int64_t layer) {
  return LayerReader(checkpoint, config, layer).read();
}

}  // namespace neuronmm::model
