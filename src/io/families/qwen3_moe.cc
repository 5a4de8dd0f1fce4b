// Qwen3-MoE: Qwen3 with mixtures of experts, except in the layers that the file names.

#include "io/families/expert_tensors.h"
#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

using nlohmann::json;

// A layer is a mixture unless "mlp_only_layers" has its number, and if its number plus one is a
// multiple of "decoder_sparse_step".
Status read_dense_layers(FamilyReader& reader) {
  const int64_t layers = reader.config.num_hidden_layers;
  NMM_ASSIGN(const int64_t step, reader.count("decoder_sparse_step", 1));
  if (step < 1) return reader.fields.wrong("decoder_sparse_step", "an integer from 1");
  std::vector<bool> dense(static_cast<size_t>(layers));
  for (int64_t i = 0; i < layers; ++i) dense[static_cast<size_t>(i)] = (i + 1) % step != 0;
  if (const json* const named = reader.fields.find("mlp_only_layers"); named != nullptr) {
    if (!named->is_array()) return reader.fields.wrong("mlp_only_layers", "a list of layers");
    for (const json& layer : *named) {
      if (!layer.is_number_unsigned())
        return reader.fields.wrong("mlp_only_layers", "a list of the numbers of layers");
      // As in transformers, numbers beyond the last layer mean nothing.
      const auto index = layer.get<uint64_t>();
      if (index < dense.size()) dense[index] = true;
    }
  }
  reader.config.experts->dense = std::move(dense);
  return {};
}

Status read_qwen3_moe(FamilyReader& reader) {
  NMM_TRY(reader.attention_biases());
  reader.config.qk_norm = QkNorm::kPerHead;
  NMM_TRY(reader.experts(128, 8, "moe_intermediate_size"));
  NMM_ASSIGN(reader.config.experts->divided, reader.flag("norm_topk_prob"));
  NMM_TRY(read_dense_layers(reader));
  NMM_ASSIGN(const bool windows, reader.flag("use_sliding_window"));
  if (windows) {
    NMM_ASSIGN(const int64_t window, reader.window());
    reader.set_windows(std::vector<bool>(reader.config.layers.size(), true), window);
  }
  return reader.one_rope();
}

// llama.cpp always divides the weights by their sum, and has experts in every layer.
Status complete_qwen3_moe(const GgufFacts& facts, nlohmann::ordered_json& config) {
  NMM_TRY(complete_experts(facts, config, "num_experts"));
  NMM_ASSIGN(const auto width, facts.integer("expert_feed_forward_length"));
  if (width) config["moe_intermediate_size"] = *width;
  config["norm_topk_prob"] = true;
  config["attention_bias"] = facts.has_tensor("blk.0.attn_q.bias");
  return {};
}

}  // namespace

namespace family {

const Family& qwen3_moe() {
  static const Family family = {
      .class_name = "Qwen3MoeForCausalLM",
      .model_type = "qwen3_moe",
      .defaults = R"({"num_key_value_heads":4,"sliding_window":4096,"moe_intermediate_size":768})",
      .keys = {"attention_bias", "num_experts", "num_local_experts", "num_experts_per_tok",
               "moe_intermediate_size", "norm_topk_prob", "mlp_only_layers", "decoder_sparse_step"},
      .read = read_qwen3_moe,
      .names = {.renamed = {{"mlp.gate", "mlp.router"}}, .stacked = stacked_experts()},
      .gguf = {{.architecture = "qwen3moe",
                .keys = {"expert_count", "expert_used_count", "expert_feed_forward_length"},
                .complete = complete_qwen3_moe}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
