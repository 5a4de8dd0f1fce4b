// OLMo 2: Llama with norms of the outputs instead of the inputs, and with norms of q and k over
// their whole width.

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

Status read_olmo2(FamilyReader& reader) {
  ModelConfig& config = reader.config;
  NMM_TRY(reader.attention_biases());
  config.input_norms = false;
  config.output_norms = true;
  config.qk_norm = QkNorm::kWholeWidth;
  return reader.one_rope();
}

// OLMo 3 has the same architecture in GGUF files, with windows.
Status complete_olmo2(const GgufFacts& facts, nlohmann::ordered_json& config) {
  NMM_ASSIGN(const auto window, facts.integer("attention.sliding_window"));
  if (!window || *window == 0) return {};
  NMM_ASSIGN(const auto pattern, facts.integers("attention.sliding_window_pattern"));
  const auto layers = config.at("num_hidden_layers").get<size_t>();
  if (pattern.size() != layers)
    return facts.wrong("attention.sliding_window_pattern", fmt::format("a list of {}", layers));
  config["architectures"] = {"Olmo3ForCausalLM"};
  config["model_type"] = "olmo3";
  config["sliding_window"] = *window;
  config["layer_types"] = layer_types(pattern);
  nlohmann::ordered_json full = config.at("rope_scaling");
  if (full.is_null()) full = {{"rope_type", "default"}};
  full["rope_theta"] = config.at("rope_theta");
  config["rope_parameters"] = {
      {"full_attention", full},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", config.at("rope_theta")}}}};
  config.erase("rope_scaling");
  config.erase("rope_theta");
  return {};
}

void write_olmo2(const ModelConfig& config, GgufKeys& keys) {
  write_windows(config, /*pattern=*/true, keys);
}

}  // namespace

namespace family {

const Family& olmo2() {
  static const Family family = {
      .class_name = "Olmo2ForCausalLM",
      .model_type = "olmo2",
      .defaults = R"({"rms_norm_eps":1e-5})",
      .keys = {"attention_bias"},
      .read = read_olmo2,
      .names = {.renamed = {{"post_attention_layernorm", "self_attn.output_norm"},
                            {"post_feedforward_layernorm", "mlp.output_norm"}}},
      .gguf = {{.architecture = "olmo2",
                .complete = complete_olmo2,
                .own_windows = true,
                .write = write_olmo2,
                .head = GgufFamily::Head::kOwn}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
