// Granite-MoE: Granite 3 with mixtures of experts. Its files hold the experts of a layer in two
// tensors.

#include <cmath>

#include "io/families/expert_tensors.h"
#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

Status read_granite_moe(FamilyReader& reader) {
  NMM_TRY(reader.granite_switches());
  NMM_TRY(reader.experts(8, 2, "intermediate_size"));
  return reader.one_rope();
}

Status complete_granite_moe(const GgufFacts& facts, nlohmann::ordered_json& config) {
  if (!config.contains("attention_multiplier"))
    config["attention_multiplier"] = 1.0 / std::sqrt(config.at("head_dim").get<double>());
  config["attention_bias"] = facts.has_tensor("blk.0.attn_q.bias");
  return complete_experts(facts, config, "num_local_experts");
}

void write_granite_moe(const ModelConfig& config, GgufKeys& keys) {
  keys.number("embedding_scale", config.embedding_scale);
  keys.number("attention.scale", config.score_scale);
  keys.number("residual_scale", config.residual_scale);
  keys.number("logit_scale", config.logit_divisor);
}

}  // namespace

namespace family {

const Family& granite_moe() {
  static const Family family = {
      .class_name = "GraniteMoeForCausalLM",
      .model_type = "granitemoe",
      .keys = {"attention_bias", "embedding_multiplier", "attention_multiplier",
               "residual_multiplier", "logits_scaling", "num_experts", "num_local_experts",
               "num_experts_per_tok"},
      .read = read_granite_moe,
      .names = {.renamed = {{"block_sparse_moe.router.layer", "mlp.router"}},
                .stacked = {{.own = "block_sparse_moe.input_linear.weight",
                             .parts = {"gate_proj.weight", "up_proj.weight"}},
                            {.own = "block_sparse_moe.output_linear.weight",
                             .parts = {"down_proj.weight", ""}}},
                .only_stacked = true},
      .gguf = {{.architecture = "granitemoe",
                .names = {.neighbouring_pairs = true},
                .numbers = {{"embedding_scale", "embedding_multiplier"},
                            {"attention.scale", "attention_multiplier"},
                            {"residual_scale", "residual_multiplier"},
                            {"logit_scale", "logits_scaling"}},
                .keys = {"expert_count", "expert_used_count"},
                .complete = complete_granite_moe,
                .write = write_granite_moe,
                .loads_output_biases = true,
                .loads_rope_divisors = true}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
