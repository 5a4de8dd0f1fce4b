#include "model/tensor_specs.h"

#include <utility>

#include <fmt/format.h>

#include "io/quantization.h"
#include "io/safetensors_writer.h"
#include "ops/low_bit.h"
#include "ops/weights.h"

namespace neuronmm::model {
namespace {

// Collects tensor specs of one dtype.
class SpecList {
 public:
  explicit SpecList(DType dtype) : dtype_(dtype) {}

  void vector(const std::string& name, int64_t size) { specs_.push_back({name, dtype_, {size}}); }
  void linear(const std::string& name, int64_t out, int64_t in, bool bias = false) {
    specs_.push_back({name + ".weight", dtype_, {out, in}});
    if (bias) vector(name + ".bias", out);
  }
  // `which` is gate, up or down. Rank 0 stands for a dense matrix.
  void mlp_factors(const std::string& mlp, std::string_view which, int64_t out, int64_t in,
                   int64_t rank, bool bias) {
    const std::string stem = fmt::format("{}.{}_", mlp, which);
    if (rank == 0) return linear(stem + "proj", out, in, bias);
    linear(stem + "v_proj", rank, in);
    linear(stem + "u_proj", out, rank);
    if (bias) vector(stem + "proj.bias", out);
  }
  // `which` is input, gate, up or down.
  void pivots(const std::string& mlp, std::string_view which, int64_t rank, int64_t out,
              int64_t in) {
    specs_.push_back({fmt::format("{}.{}_pivots", mlp, which), DType::kI32, {rank}});
    linear(fmt::format("{}.{}_pivot_proj", mlp, which), out, in);
  }
  std::vector<io::TensorSpec> take() { return std::move(specs_); }

 private:
  DType dtype_;
  std::vector<io::TensorSpec> specs_;
};

void add_pivoted_mlp(SpecList& specs, const std::string& mlp, const io::MlpShape& shape,
                     const io::ModelConfig& config, int64_t neurons) {
  const int64_t hidden = config.hidden_size;
  const int64_t input = shape.input > 0 ? shape.input : hidden;
  if (shape.input > 0) specs.pivots(mlp, "input", input, input, hidden - input);
  for (const auto& [which, rank] : {std::pair("gate", shape.gate), std::pair("up", shape.up)}) {
    if (rank > 0) specs.pivots(mlp, which, rank, rank, hidden - rank);
    specs.linear(fmt::format("{}.{}_proj", mlp, which), neurons, rank > 0 ? rank : input,
                 config.mlp_bias);
  }
  specs.linear(mlp + ".down_proj", shape.down > 0 ? shape.down : hidden, neurons);
  if (config.mlp_bias) specs.vector(mlp + ".down_proj.bias", hidden);
  if (shape.down > 0) specs.pivots(mlp, "down", shape.down, hidden - shape.down, shape.down);
}

void add_mixture(SpecList& specs, const std::string& mlp, const io::ModelConfig& config,
                 int64_t layer) {
  const io::Experts& experts = *config.experts;
  specs.linear(mlp + ".router", experts.count, config.hidden_size, experts.router_bias);
  const int64_t hidden = config.hidden_size;
  const auto [input, output] = experts.bases_of(layer);
  if (input > 0) specs.linear(mlp + ".input_basis_proj", input, hidden);
  if (output > 0) specs.linear(mlp + ".output_basis_proj", hidden, output);
  for (int64_t i = 0; i < experts.count; ++i) {
    const std::string expert = fmt::format("{}.experts.{}", mlp, i);
    const int64_t width = experts.width_of(layer, i);
    const int64_t in = input > 0 ? input : hidden, out = output > 0 ? output : hidden;
    specs.linear(expert + ".gate_proj", width, in, config.mlp_bias);
    specs.linear(expert + ".up_proj", width, in, config.mlp_bias);
    specs.linear(expert + ".down_proj", out, width, config.mlp_bias);
  }
}

void add_layer(SpecList& specs, const io::ModelConfig& config, int64_t index) {
  const std::string layer = fmt::format("model.layers.{}", index);
  const std::string attention = layer + ".self_attn", mlp = layer + ".mlp";
  const int64_t hidden = config.hidden_size, intermediate = config.intermediate_size;
  const int64_t q_size = config.num_attention_heads * config.head_dim;
  const int64_t kv_size = config.num_key_value_heads * config.head_dim;
  const io::MlpShape shape =
      config.compression ? config.compression->ranks.at(index) : io::MlpShape{};

  if (config.input_norms) specs.vector(layer + ".input_layernorm.weight", hidden);
  specs.linear(attention + ".q_proj", q_size, hidden, config.attention_bias);
  specs.linear(attention + ".k_proj", kv_size, hidden, config.attention_bias);
  specs.linear(attention + ".v_proj", kv_size, hidden, config.attention_bias);
  if (config.qk_norm != io::QkNorm::kNone) {
    const bool whole = config.qk_norm == io::QkNorm::kWholeWidth;
    specs.vector(attention + ".q_norm.weight", whole ? q_size : config.head_dim);
    specs.vector(attention + ".k_norm.weight", whole ? kv_size : config.head_dim);
  }
  specs.linear(attention + ".o_proj", hidden, q_size, config.attention_output_bias);
  if (config.attention_sinks) specs.vector(attention + ".sinks", config.num_attention_heads);
  if (config.input_norms) specs.vector(layer + ".post_attention_layernorm.weight", hidden);
  if (config.output_norms) {
    specs.vector(attention + ".output_norm.weight", hidden);
    specs.vector(mlp + ".output_norm.weight", hidden);
  }
  if (config.is_mixture(index)) return add_mixture(specs, mlp, config, index);
  const int64_t neurons = shape.neurons > 0 ? shape.neurons : intermediate;
  if (config.compression && config.compression->pivoted()) {
    return add_pivoted_mlp(specs, mlp, shape, config, neurons);
  }
  specs.mlp_factors(mlp, "gate", neurons, hidden, shape.gate, config.mlp_bias);
  specs.mlp_factors(mlp, "up", neurons, hidden, shape.up, config.mlp_bias);
  specs.mlp_factors(mlp, "down", hidden, neurons, shape.down, config.mlp_bias);
}

}  // namespace

std::vector<io::TensorSpec> tensor_specs(const io::ModelConfig& config) {
  SpecList specs(config.dtype);
  specs.linear("model.embed_tokens", config.vocab_size, config.hidden_size);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) add_layer(specs, config, i);
  specs.vector("model.norm.weight", config.hidden_size);
  if (!config.tie_word_embeddings) specs.linear("lm_head", config.vocab_size, config.hidden_size);
  return specs.take();
}

// Norms are recognised by the ending that they have in Hugging Face's models.
bool is_norm(std::string_view tensor_name) { return tensor_name.ends_with("norm.weight"); }

bool is_linear(std::string_view tensor_name, const io::ModelConfig& config) {
  return tensor_name.ends_with("_proj.weight") || tensor_name == "lm_head.weight" ||
         (config.tie_word_embeddings && tensor_name.ends_with("embed_tokens.weight"));
}

std::optional<LowBitFormat> rounding_of(std::string_view tensor_name, const io::ModelConfig& config,
                                        const io::Quantization& quantization) {
  constexpr const char* kTable = "embed_tokens";
  const bool table = tensor_name.ends_with("embed_tokens.weight");
  const bool rounded =
      is_linear(tensor_name, config) || (table && quantization.exceptions.contains(kTable));
  return rounded ? quantization.rounding_of(tensor_name) : std::nullopt;
}

// A rounded matrix has its values, one bf16 scale per row and group of 128 columns and, with 4
// bits, one byte per row and group.
std::vector<io::TensorSpec> stored_specs(const io::TensorSpec& spec,
                                         const std::optional<LowBitFormat>& rounding) {
  if (!rounding) return {spec};
  const int64_t rows = spec.shape.at(0), columns = spec.shape.at(1);
  const DType dtype = rounding->bits == 8 ? DType::kI8 : DType::kU8;
  const int64_t scales = (columns + ops::kQuantGroup - 1) / ops::kQuantGroup;
  std::vector<io::TensorSpec> specs = {
      {spec.name, dtype, {rows, ops::stored_row_bytes(*rounding, columns)}},
      {spec.name + io::kScaleEnding, DType::kBF16, {rows, scales}}};
  if (rounding->bits != 4) return specs;
  specs.push_back(
      {spec.name + io::kGroupEnding, DType::kU8, {rows, ops::groups_of_row(*rounding, columns)}});
  return specs;
}

}  // namespace neuronmm::model
