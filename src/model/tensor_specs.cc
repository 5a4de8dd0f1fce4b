#include "model/tensor_specs.h"

#include <fmt/format.h>

#include "io/safetensors_writer.h"

namespace neuronmm::model {
namespace {

// Appends specs of one dtype.
class SpecList {
 public:
  explicit SpecList(DType dtype) : dtype_(dtype) {}

  void vector(const std::string& name, int64_t size) { specs_.push_back({name, dtype_, {size}}); }
  void linear(const std::string& name, int64_t out, int64_t in, bool bias = false) {
    specs_.push_back({name + ".weight", dtype_, {out, in}});
    if (bias) vector(name + ".bias", out);
  }
  // `which`: gate, up or down; rank 0 is dense.
  void mlp_linear(const std::string& mlp, std::string_view which, int64_t out, int64_t in,
                  int64_t rank) {
    if (rank == 0) return linear(fmt::format("{}.{}_proj", mlp, which), out, in);
    linear(fmt::format("{}.{}_v_proj", mlp, which), rank, in);
    linear(fmt::format("{}.{}_u_proj", mlp, which), out, rank);
  }
  std::vector<io::TensorSpec> take() { return std::move(specs_); }

 private:
  DType dtype_;
  std::vector<io::TensorSpec> specs_;
};

// In the order in which a forward pass reads them.
void add_layer(SpecList& specs, const io::ModelConfig& config, int64_t index) {
  const std::string layer = fmt::format("model.layers.{}", index);
  const std::string attention = layer + ".self_attn", mlp = layer + ".mlp";
  const int64_t hidden = config.hidden_size, intermediate = config.intermediate_size;
  const int64_t q_size = config.num_attention_heads * config.head_dim;
  const int64_t kv_size = config.num_key_value_heads * config.head_dim;
  const io::MlpRanks ranks =
      config.compression ? config.compression->ranks.at(index) : io::MlpRanks{};

  specs.vector(layer + ".input_layernorm.weight", hidden);
  specs.linear(attention + ".q_proj", q_size, hidden, config.attention_bias);
  specs.linear(attention + ".k_proj", kv_size, hidden, config.attention_bias);
  specs.linear(attention + ".v_proj", kv_size, hidden, config.attention_bias);
  if (config.qk_norm) {
    specs.vector(attention + ".q_norm.weight", config.head_dim);
    specs.vector(attention + ".k_norm.weight", config.head_dim);
  }
  specs.linear(attention + ".o_proj", hidden, q_size, config.attention_output_bias);
  specs.vector(layer + ".post_attention_layernorm.weight", hidden);
  specs.mlp_linear(mlp, "gate", intermediate, hidden, ranks.gate);
  specs.mlp_linear(mlp, "up", intermediate, hidden, ranks.up);
  specs.mlp_linear(mlp, "down", hidden, intermediate, ranks.down);
}

}  // namespace

// The names and shapes of Hugging Face's Llama and Qwen models, which compress and synthesize
// write.
std::vector<io::TensorSpec> tensor_specs(const io::ModelConfig& config) {
  SpecList specs(config.dtype);
  specs.linear("model.embed_tokens", config.vocab_size, config.hidden_size);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) add_layer(specs, config, i);
  specs.vector("model.norm.weight", config.hidden_size);
  if (!config.tie_word_embeddings) specs.linear("lm_head", config.vocab_size, config.hidden_size);
  return specs.take();
}

// By the endings that Hugging Face's models have.
bool is_norm(std::string_view tensor_name) { return tensor_name.ends_with("norm.weight"); }

// Where embeddings are tied, the embedding table is the vocabulary's matrix as well.
bool is_linear(std::string_view tensor_name, const io::ModelConfig& config) {
  return tensor_name.ends_with("_proj.weight") || tensor_name == "lm_head.weight" ||
         (config.tie_word_embeddings && tensor_name.ends_with("embed_tokens.weight"));
}

}  // namespace neuronmm::model
