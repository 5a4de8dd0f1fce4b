#include "model/layer_weights.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <vector>

#include "io/quantization.h"
#include "model/mlp_reader.h"
#include "model/weight_reader.h"

namespace neuronmm::model {
namespace {

bool is_zero_bias(std::string_view name, const TensorView& tensor) {
  if (!name.ends_with(".bias") || tensor.shape.size() != 1) return false;
  std::vector<float> values(static_cast<size_t>(tensor.size()));
  to_floats(tensor, 0, tensor.size(), values.data());
  return std::ranges::all_of(values, [](float value) { return value == 0; });
}

constexpr std::string_view kExperts = "mlp.experts.";

// Reads the tensors of one layer and remembers their names, so that refuse_unread() finds those
// that nobody read.
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
    weights.layer = layer_;
    if (config_.input_norms) {
      NMM_ASSIGN(weights.input_norm, require("input_layernorm.weight", hidden));
      NMM_ASSIGN(weights.post_attention_norm, require("post_attention_layernorm.weight", hidden));
    }
    if (config_.output_norms) {
      NMM_ASSIGN(weights.attention_output_norm, require("self_attn.output_norm.weight", hidden));
      NMM_ASSIGN(weights.mlp_output_norm, require("mlp.output_norm.weight", hidden));
    }
    NMM_TRY(read_attention(weights));
    if (config_.is_mixture(layer_)) {
      weights.mixture.emplace();
      NMM_TRY(read_mixture(*weights.mixture));
    } else {
      NMM_TRY(read_mlp(weights.mlp));
    }
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
    if (config_.attention_sinks) {
      NMM_ASSIGN(weights.sinks, require("self_attn.sinks", {config_.num_attention_heads}));
    }
    if (config_.qk_norm == io::QkNorm::kNone) return {};
    const bool whole = config_.qk_norm == io::QkNorm::kWholeWidth;
    NMM_ASSIGN(weights.q_norm,
               require("self_attn.q_norm.weight", {whole ? q_width : config_.head_dim}));
    NMM_ASSIGN(weights.k_norm,
               require("self_attn.k_norm.weight", {whole ? kv_width : config_.head_dim}));
    return {};
  }

  Status read_mlp(ops::MlpWeight& mlp) {
    const auto& record = config_.compression;
    if (record && layer_ >= std::ssize(record->ranks)) {
      return fail("{}: expected the ranks of {} layers in config.json, found {}", folder(),
                  config_.num_hidden_layers, record->ranks.size());
    }
    MlpReader reader(checkpoint_, config_, prefix_ + "mlp.");
    NMM_ASSIGN(mlp, reader.read(record ? &record->ranks[static_cast<size_t>(layer_)] : nullptr));
    read_.insert(reader.names().begin(), reader.names().end());
    return {};
  }

  Status read_mixture(ops::MixtureWeight& mixture) {
    const io::Experts& experts = *config_.experts;
    mixture.active = experts.active;
    mixture.divided = experts.divided;
    NMM_TRY(read_router(mixture.router));
    NMM_TRY(check_expert_numbers());
    NMM_TRY(read_bases(mixture));
    const MlpSides sides = {mixture.expert_in(), mixture.expert_out()};
    for (int64_t i = 0; i < experts.count; ++i) {
      MlpReader reader(checkpoint_, config_, fmt::format("{}{}{}.", prefix_, kExperts, i));
      NMM_ASSIGN(mixture.experts.emplace_back(),
                 reader.read_expert(experts.width_of(layer_, i), sides));
      read_.insert(reader.names().begin(), reader.names().end());
    }
    return {};
  }

  // A router with more rows than experts would choose experts that do not exist.
  Status read_router(ops::LinearWeight& router) {
    const std::string name = "mlp.router.weight";
    const int64_t count = config_.experts->count;
    const auto found = checkpoint_.tensors().find(prefix_ + name);
    const Shape expected = {count, config_.hidden_size};
    if (found != checkpoint_.tensors().end() && found->second.shape.size() == 2 &&
        found->second.shape[0] != count && found->second.shape[1] == config_.hidden_size) {
      const int64_t rows = found->second.shape[0];
      return fail(
          "{}: tensor {:?}: expected a row for each of the {} experts of config.json, found {} "
          "rows{}",
          folder(), prefix_ + name, count, rows,
          rows > count ? fmt::format(": it names expert {}, which does not exist", count) : "");
    }
    NMM_ASSIGN(const TensorView weight, require(name, expected));
    router.w_t = ops::WeightView(weight);
    if (!config_.experts->router_bias) return {};
    NMM_ASSIGN(router.bias, require("mlp.router.bias", {count}));
    return {};
  }

  // Reads the bases that config.json records. Experts of a folder whose record was lost would not
  // fit their tensors, so a basis without a record is an error.
  Status read_bases(ops::MixtureWeight& mixture) {
    const int64_t hidden = config_.hidden_size;
    const io::ExpertBases ranks = config_.experts->bases_of(layer_);
    const auto read = [&](const char* name, int64_t rank, const Shape& shape,
                          ops::LinearWeight& basis) -> Status {
      if (rank > 0) {
        NMM_ASSIGN(basis.w_t, require_matrix(name, shape));
        return {};
      }
      if (!has(name)) return {};
      return fail(
          "{}: config.json records no such basis of the experts of layer {}, found tensor "
          "{:?}",
          folder(), layer_, prefix_ + name);
    };
    NMM_TRY(read("mlp.input_basis_proj.weight", ranks.input, {ranks.input, hidden}, mixture.input));
    return read("mlp.output_basis_proj.weight", ranks.output, {hidden, ranks.output},
                mixture.output);
  }

  // Finds experts that are missing as a whole, and experts beyond the config's number.
  Status check_expert_numbers() const {
    const int64_t count = config_.experts->count;
    const std::string start = prefix_ + std::string(kExperts);
    std::vector<bool> found(static_cast<size_t>(count));
    const auto& tensors = checkpoint_.tensors();
    for (auto it = tensors.lower_bound(start); it != tensors.end() && it->first.starts_with(start);
         ++it) {
      const char* const first = it->first.data() + start.size();
      const char* const end = it->first.data() + it->first.size();
      int64_t number = -1;
      const auto [stop, error] = std::from_chars(first, end, number);
      if (error != std::errc() || stop == end || *stop != '.') continue;
      if (number < 0 || number >= count) {
        return fail("{}: config.json has {} experts per layer, found tensor {:?}", folder(), count,
                    it->first);
      }
      found[static_cast<size_t>(number)] = true;
    }
    const auto missing = std::ranges::find(found, false);
    if (missing == found.end()) return {};
    return fail(
        "{}: config.json has {} experts per layer, but layer {} has no tensors of expert {} (an "
        "incomplete download?)",
        folder(), count, layer_, missing - found.begin());
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

  // Refuses float tensors of the layer that nobody read: without their weights the model would
  // silently be wrong. The exceptions are the rotary frequencies that old Llama exports store,
  // which the config defines already, and biases of zeros, which AutoGPTQ adds to every module.
  Status refuse_unread() const {
    const auto& tensors = checkpoint_.tensors();
    for (auto it = tensors.lower_bound(prefix_);
         it != tensors.end() && it->first.starts_with(prefix_); ++it) {
      const auto& [name, tensor] = *it;
      if (read_.contains(name) || !is_float(tensor.dtype) ||
          name.ends_with(".rotary_emb.inv_freq") || is_zero_bias(name, tensor)) {
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
  // The scales of a rounded weight count as read, too.
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

}  // namespace

std::vector<float> norm_gains(const TensorView& norm, const io::ModelConfig& config) {
  if (norm.empty()) return {};
  std::vector<float> gains(static_cast<size_t>(norm.size()));
  to_floats(norm, 0, norm.size(), gains.data());
  const auto offset = static_cast<float>(config.gain_offset);
  if (offset != 0.0f) {
    for (float& gain : gains) gain += offset;
  }
  return gains;
}

// Some exports omit "model." at the start of every name.
std::string tensor_prefix(const io::Checkpoint& checkpoint) {
  return checkpoint.has("embed_tokens.weight") ? "" : "model.";
}

Status check_head(const io::Checkpoint& checkpoint, const io::ModelConfig& config) {
  const bool has_head = checkpoint.has("lm_head.weight");
  if (!config.tie_word_embeddings) {
    if (has_head) return {};
    return fail(
        "{}: expected tensor lm_head.weight because config.json has tie_word_embeddings false, "
        "found none",
        checkpoint.folder().string());
  }
  if (!has_head) return {};
  const std::string table_name = tensor_prefix(checkpoint) + "embed_tokens.weight";
  const TensorView head = checkpoint.tensors().at("lm_head.weight");
  // `quantize` made this folder from one that passed this check.
  if (!is_float(head.dtype)) return {};
  const Shape shape = {config.vocab_size, config.hidden_size};
  NMM_TRY(checkpoint.require("lm_head.weight", shape));
  NMM_ASSIGN(const TensorView table, checkpoint.require(table_name, shape));
  std::vector<float> of_head(static_cast<size_t>(config.hidden_size)), of_table(of_head.size());
  for (int64_t row = 0; row < config.vocab_size; ++row) {
    to_floats(head, row * config.hidden_size, config.hidden_size, of_head.data());
    to_floats(table, row * config.hidden_size, config.hidden_size, of_table.data());
    if (of_head == of_table) continue;
    return fail(
        "{}: tie_word_embeddings of config.json is true, but lm_head.weight is not {} (row {} "
        "differs); set it to false to use lm_head.weight, or remove that tensor",
        checkpoint.folder().string(), table_name, row);
  }
  return {};
}

Result<LayerWeights> layer_weights(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                                   int64_t layer) {
  return LayerReader(checkpoint, config, layer).read();
}

}  // namespace neuronmm::model
