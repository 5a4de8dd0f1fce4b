// Seed-OSS: Llama with three flags for biases.

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

Status read_seed_oss(FamilyReader& reader) {
  ModelConfig& config = reader.config;
  NMM_ASSIGN(config.attention_bias, reader.flag("attention_bias", true));
  NMM_ASSIGN(config.attention_output_bias, reader.flag("attention_out_bias"));
  NMM_ASSIGN(config.mlp_bias, reader.flag("mlp_bias"));
  return reader.one_rope();
}

Status complete_seed_oss(const GgufFacts& facts, nlohmann::ordered_json& config) {
  config["attention_bias"] = facts.has_tensor("blk.0.attn_q.bias");
  config["attention_out_bias"] = facts.has_tensor("blk.0.attn_output.bias");
  config["mlp_bias"] = facts.has_tensor("blk.0.ffn_up.bias");
  return {};
}

}  // namespace

namespace family {

const Family& seed_oss() {
  static const Family family = {
      .class_name = "SeedOssForCausalLM",
      .model_type = "seed_oss",
      .defaults = R"({"num_key_value_heads":8,"head_dim":128})",
      .keys = {"attention_bias", "attention_out_bias", "mlp_bias"},
      .read = read_seed_oss,
      .gguf = {{.architecture = "seed_oss",
                .names = {.renamed = {{"post_attention_norm", "post_attention_layernorm"}}},
                .complete = complete_seed_oss}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
