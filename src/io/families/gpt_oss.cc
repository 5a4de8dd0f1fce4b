// gpt-oss: mixtures of experts with biases and clamped SwiGLU, sinks in attention, and a window in
// every second layer. Published files have the experts in MXFP4.

#include "io/families/expert_tensors.h"
#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

using nlohmann::json;

constexpr double kGptOssTheta = 150000.0;

bool is_local(int64_t layer) { return layer % 2 == 0; }

// The class has this table if the file has none. "rope_theta" may stand alone.
Result<RopeTable> default_gpt_oss_rope(const FamilyReader& reader) {
  YarnRopeScaling yarn;
  yarn.factor = 32.0;
  yarn.original_max_position_embeddings = 4096;
  yarn.truncate = false;
  constexpr double kLargestTheta = 1e30;
  NMM_ASSIGN(const double theta,
             reader.fields.number_in("rope_theta", 1.0, kLargestTheta, kGptOssTheta));
  return RopeTable{.theta = theta, .scaling = yarn};
}

Status read_gpt_oss(FamilyReader& reader) {
  ModelConfig& config = reader.config;
  NMM_TRY(reader.attention_biases());
  config.attention_sinks = true;
  NMM_TRY(reader.experts(128, 4, "intermediate_size"));
  config.experts->router_bias = config.mlp_bias = true;
  NMM_ASSIGN(const double limit, reader.multiplier("swiglu_limit", 7.0));
  NMM_ASSIGN(const double alpha, reader.multiplier("swiglu_alpha", 1.702));
  if (limit < 0.0) return reader.fields.wrong("swiglu_limit", "a positive number");
  config.swiglu_clamp = {static_cast<float>(limit), static_cast<float>(alpha)};
  NMM_ASSIGN(const int64_t window, reader.window());
  NMM_ASSIGN(const auto sliding, reader.sliding_layers(is_local));
  reader.set_windows(sliding, window);
  if (reader.rope_object() == nullptr) {
    NMM_ASSIGN(const RopeTable rope, default_gpt_oss_rope(reader));
    config.ropes = {rope};
    return {};
  }
  return reader.one_rope({.default_theta = kGptOssTheta});
}

// Files do not say which layers have the window, nor the numbers of clamped SwiGLU, which are
// constants of llama.cpp. It rounds the ends of YaRN's blend, but the model does not.
Status complete_gpt_oss(const GgufFacts& facts, nlohmann::ordered_json& config) {
  NMM_TRY(complete_experts(facts, config, "num_local_experts"));
  NMM_ASSIGN(const auto width, facts.integer("expert_feed_forward_length"));
  if (width) config["intermediate_size"] = *width;
  NMM_ASSIGN(const auto window, facts.integer("attention.sliding_window"));
  config["sliding_window"] = window && *window > 0 ? nlohmann::ordered_json(*window) : nullptr;
  config["attention_bias"] = facts.has_tensor("blk.0.attn_q.bias");
  nlohmann::ordered_json& rope = config["rope_scaling"];
  if (rope.is_null()) rope = {{"rope_type", "default"}};
  if (rope.value("rope_type", "") == "yarn") rope["truncate"] = false;
  return {};
}

// The same layers have it in all files.
void write_gpt_oss(const ModelConfig& config, GgufKeys& keys) {
  write_windows(config, /*pattern=*/false, keys);
}

}  // namespace

namespace family {

const Family& gpt_oss() {
  static const Family family = {
      .class_name = "GptOssForCausalLM",
      .model_type = "gpt_oss",
      .defaults = R"({"rms_norm_eps":1e-5,"num_key_value_heads":8,"head_dim":64,
                      "sliding_window":128,"attention_bias":true})",
      .keys = {"attention_bias", "layer_types", "num_experts", "num_local_experts",
               "num_experts_per_tok", "swiglu_limit", "swiglu_alpha",
               // Other names of the same numbers in published files.
               "experts_per_token", "initial_context_length"},
      .activation = Activation::kClampedSwiglu,
      .read = read_gpt_oss,
      .names = {.stacked = {{.own = "mlp.experts.gate_up_proj",
                             .parts = {"gate_proj.weight", "up_proj.weight"},
                             .input_first = true,
                             .interleaved = true},
                            {.own = "mlp.experts.gate_up_proj_bias",
                             .parts = {"gate_proj.bias", "up_proj.bias"},
                             .interleaved = true},
                            {.own = "mlp.experts.down_proj",
                             .parts = {"down_proj.weight", ""},
                             .input_first = true},
                            {.own = "mlp.experts.down_proj_bias", .parts = {"down_proj.bias", ""}}},
                .only_stacked = true},
      .gguf = {{.architecture = "gpt-oss",
                .names = {.renamed = {{"post_attention_norm", "post_attention_layernorm"}}},
                .keys = {"expert_count", "expert_used_count", "expert_feed_forward_length"},
                .complete = complete_gpt_oss,
                .own_windows = true,
                .write = write_gpt_oss,
                .loads_output_biases = true}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
