// Hunyuan (dense): Llama with a norm of every head of q and k behind RoPE.

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

Status read_hunyuan(FamilyReader& reader) {
  ModelConfig& config = reader.config;
  NMM_TRY(reader.attention_biases());
  NMM_ASSIGN(const bool normed, reader.flag("use_qk_norm", true));
  if (!normed) return reader.fields.wrong("use_qk_norm", "true");
  NMM_ASSIGN(const int64_t experts, reader.count("num_experts", 1));
  if (experts > 1) return reader.fields.wrong("num_experts", "1 (experts are not supported)");
  NMM_ASSIGN(const bool shared, reader.flag("use_cla"));
  if (shared) return reader.fields.wrong("use_cla", "false (shared caches are not supported)");
  config.qk_norm = QkNorm::kPerHead;
  config.qk_norm_after_rope = true;
  return reader.one_rope({.alpha = true});
}

Status complete_hunyuan(const GgufFacts& facts, nlohmann::ordered_json& config) {
  config["attention_bias"] = facts.has_tensor("blk.0.attn_q.bias");
  return {};
}

}  // namespace

namespace family {

const Family& hunyuan() {
  static const Family family = {
      .class_name = "HunYuanDenseV1ForCausalLM",
      .model_type = "hunyuan_v1_dense",
      .defaults = R"({"rms_norm_eps":1e-5})",
      // The class ignores all of these except the first.
      .keys =
          {"attention_bias",    "use_qk_norm",           "num_experts",  "use_cla",
           "cla_share_factor",  "attention_head_dim",    "moe_topk",     "moe_intermediate_size",
           "num_shared_expert", "moe_layer_num_skipped", "norm_type",    "use_rotary_pos_emb",
           "dense_list",        "eod_token_id",          "pad_id",       "im_start_id",
           "im_end_id",         "im_newline_id",         "mask_init_id", "text_start_id",
           "text_end_id",       "num_media_embeds",      "pool_type",    "class_num"},
      .read = read_hunyuan,
      .names = {.renamed = {{"self_attn.query_layernorm", "self_attn.q_norm"},
                            {"self_attn.key_layernorm", "self_attn.k_norm"}}},
      .gguf = {{.architecture = "hunyuan-dense", .complete = complete_hunyuan}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
