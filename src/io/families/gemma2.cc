// Gemma 2: norms before and behind attention and MLP, gains that are stored without their 1, GELU,
// caps of scores and logits, and a window in every second layer.

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

Status read_gemma2(FamilyReader& reader) {
  NMM_TRY(reader.gemma_switches());
  ModelConfig& config = reader.config;
  NMM_ASSIGN(config.score_cap, reader.cap("attn_logit_softcapping"));
  NMM_ASSIGN(config.logit_cap, reader.cap("final_logit_softcapping"));
  NMM_ASSIGN(const int64_t window, reader.window());
  NMM_ASSIGN(const auto sliding, reader.sliding_layers([](int64_t i) { return i % 2 == 0; }));
  reader.set_windows(sliding, window);
  return reader.one_rope();
}

// llama.cpp divides scores by the root of head_dim, except in the 27B.
Status complete_gemma2(const GgufFacts& facts, nlohmann::ordered_json& config) {
  constexpr int64_t kLayersOf27B = 46;
  const int64_t heads = config.at("num_attention_heads"), hidden = config.at("hidden_size");
  const bool is_27b = config.at("num_hidden_layers") == kLayersOf27B;
  config["query_pre_attn_scalar"] = is_27b ? hidden / heads : config.at("head_dim").get<int64_t>();
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    NMM_ASSIGN(const auto cap, facts.number(key));
    if (cap) config[key] = *cap == 0.0 ? nlohmann::ordered_json() : nlohmann::ordered_json(*cap);
  }
  NMM_ASSIGN(const auto window, facts.integer("attention.sliding_window"));
  if (window) config["sliding_window"] = *window;
  return {};
}

void write_gemma2(const ModelConfig& config, GgufKeys& keys) {
  write_windows(config, /*pattern=*/false, keys);
  keys.number("attn_logit_softcapping", config.score_cap);
  keys.number("final_logit_softcapping", config.logit_cap);
}

}  // namespace

namespace family {

const Family& gemma2() {
  static const Family family = {
      .class_name = "Gemma2ForCausalLM",
      .model_type = "gemma2",
      .defaults = R"({"head_dim":256,"num_key_value_heads":4,"tie_word_embeddings":true,
          "attn_logit_softcapping":50.0,"final_logit_softcapping":30.0,"sliding_window":4096})",
      .keys = {"attention_bias", "query_pre_attn_scalar", "attn_logit_softcapping",
               "final_logit_softcapping", "layer_types", "use_bidirectional_attention"},
      .activation = Activation::kGeluTanh,
      .read = read_gemma2,
      .names = {.renamed = {{"post_attention_layernorm", "self_attn.output_norm"},
                            {"pre_feedforward_layernorm", "post_attention_layernorm"},
                            {"post_feedforward_layernorm", "mlp.output_norm"}}},
      .gguf = {{.architecture = "gemma2",
                .gains_with_offset = true,
                .keys = {"attn_logit_softcapping", "final_logit_softcapping"},
                .complete = complete_gemma2,
                .own_windows = true,
                .write = write_gemma2,
                .head = GgufFamily::Head::kTable}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
