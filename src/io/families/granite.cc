// Granite 3: Llama with four multipliers. An absent "attention_multiplier" means 1.

#include <cmath>

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

Status read_granite(FamilyReader& reader) {
  ModelConfig& config = reader.config;
  NMM_TRY(reader.granite_switches());
  NMM_ASSIGN(config.mlp_bias, reader.flag("mlp_bias"));
  NMM_TRY(reader.one_rope());
  // Only a rewritten Granite 4 has this key.
  NMM_ASSIGN(const auto positions, reader.fields.string("position_embedding_type"));
  if (!positions || *positions == "rope") return {};
  if (*positions != "nope")
    return reader.fields.wrong("position_embedding_type", "\"rope\" or \"nope\"");
  reader.drop_rope([](int64_t) { return false; });
  return {};
}

Status complete_granite(const GgufFacts& facts, nlohmann::ordered_json& config) {
  NMM_ASSIGN(const auto rope, facts.boolean("rope.scaling.finetuned"));
  if (!rope.value_or(true)) config["position_embedding_type"] = "nope";
  if (!config.contains("attention_multiplier"))
    config["attention_multiplier"] = 1.0 / std::sqrt(config.at("head_dim").get<double>());
  config["attention_bias"] = facts.has_tensor("blk.0.attn_q.bias");
  config["mlp_bias"] = facts.has_tensor("blk.0.ffn_up.bias");
  return {};
}

void write_granite(const ModelConfig& config, GgufKeys& keys) {
  keys.number("embedding_scale", config.embedding_scale);
  keys.number("attention.scale", config.score_scale);
  keys.number("residual_scale", config.residual_scale);
  keys.number("logit_scale", config.logit_divisor);
  if (config.ropes.empty()) keys.boolean("rope.scaling.finetuned", false);
}

}  // namespace

namespace family {

const Family& granite() {
  static const Family family = {
      .class_name = "GraniteForCausalLM",
      .model_type = "granite",
      .keys = {"attention_bias", "mlp_bias", "embedding_multiplier", "attention_multiplier",
               "residual_multiplier", "logits_scaling", "position_embedding_type"},
      .read = read_granite,
      .gguf = {{.architecture = "granite",
                .names = {.neighbouring_pairs = true},
                .numbers = {{"embedding_scale", "embedding_multiplier"},
                            {"attention.scale", "attention_multiplier"},
                            {"residual_scale", "residual_multiplier"},
                            {"logit_scale", "logits_scaling"}},
                .complete = complete_granite,
                .write = write_granite,
                .loads_output_biases = true,
                .loads_rope_divisors = true}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
