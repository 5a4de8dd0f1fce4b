// Gemma 3 without images: Gemma 2 with norms of q and k, no cap of scores, and a second RoPE base
// for layers with a window.

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

Status read_gemma3(FamilyReader& reader) {
  NMM_TRY(reader.gemma_switches());
  ModelConfig& config = reader.config;
  config.qk_norm = QkNorm::kPerHead;
  // The class never applies "attn_logit_softcapping".
  NMM_ASSIGN(config.logit_cap, reader.cap("final_logit_softcapping"));
  const bool old_key = reader.fields.find("sliding_window_pattern") != nullptr;
  NMM_ASSIGN(const int64_t pattern,
             reader.count(old_key ? "sliding_window_pattern" : "_sliding_window_pattern", 6));
  if (pattern == 0) return reader.fields.wrong("sliding_window_pattern", "an integer from 1");
  NMM_ASSIGN(const int64_t window, reader.window());
  NMM_ASSIGN(const auto sliding,
             reader.sliding_layers([&](int64_t i) { return (i + 1) % pattern != 0; }));
  reader.set_windows(sliding, window);
  return reader.two_ropes(
      sliding, {.default_theta = 1000000.0, .layer_type = "full_attention"},
      {.layer_type = "sliding_attention", .theta_key = "rope_local_base_freq", .scaling = false});
}

// llama.cpp divides scores by the root of head_dim, except in the 27B.
Status complete_gemma3(const GgufFacts& facts, nlohmann::ordered_json& config) {
  constexpr int64_t kLayersOf27B = 62;
  const int64_t heads = config.at("num_attention_heads"), hidden = config.at("hidden_size");
  const bool is_27b = config.at("num_hidden_layers") == kLayersOf27B;
  config["query_pre_attn_scalar"] = is_27b ? hidden / heads : config.at("head_dim").get<int64_t>();
  NMM_ASSIGN(const auto local, facts.number("rope.freq_base_swa"));
  config["rope_local_base_freq"] = local.value_or(10000.0);
  NMM_ASSIGN(const auto cap, facts.number("final_logit_softcapping"));
  if (cap && *cap != 0.0) config["final_logit_softcapping"] = *cap;
  NMM_ASSIGN(const auto window, facts.integer("attention.sliding_window"));
  config["sliding_window"] = window ? nlohmann::ordered_json(*window) : nlohmann::ordered_json();
  NMM_ASSIGN(const auto pattern, facts.integers("attention.sliding_window_pattern"));
  if (pattern.size() == 1) config["sliding_window_pattern"] = pattern.front();
  if (pattern.size() > 1) config["layer_types"] = layer_types(pattern);
  return {};
}

void write_gemma3(const ModelConfig& config, GgufKeys& keys) {
  write_windows(config, /*pattern=*/true, keys);
  if (config.logit_cap != 0.0) keys.number("final_logit_softcapping", config.logit_cap);
  keys.number("rope.freq_base_swa", config.ropes.back().theta);
}

}  // namespace

namespace family {

const Family& gemma3() {
  static const Family family = {
      .class_name = "Gemma3ForCausalLM",
      .model_type = "gemma3_text",
      .defaults = R"({"vocab_size":262208,"hidden_size":2304,"intermediate_size":9216,
          "num_hidden_layers":26,"num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,
          "max_position_embeddings":131072,"tie_word_embeddings":true,"sliding_window":4096})",
      .keys = {"attention_bias", "query_pre_attn_scalar", "attn_logit_softcapping",
               "final_logit_softcapping", "layer_types", "use_bidirectional_attention",
               "sliding_window_pattern", "_sliding_window_pattern", "rope_local_base_freq"},
      .activation = Activation::kGeluTanh,
      .read = read_gemma3,
      .names = {.renamed = {{"post_attention_layernorm", "self_attn.output_norm"},
                            {"pre_feedforward_layernorm", "post_attention_layernorm"},
                            {"post_feedforward_layernorm", "mlp.output_norm"}}},
      .gguf = {{.architecture = "gemma3",
                .gains_with_offset = true,
                .keys = {"attn_logit_softcapping", "final_logit_softcapping"},
                .complete = complete_gemma3,
                .own_windows = true,
                .write = write_gemma3}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
