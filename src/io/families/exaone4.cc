// EXAONE 4: norms of the outputs, norms of every head of q and k. If there are windows, the layers
// without one have no RoPE.

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

// Returns whether a layer has a window: an integer gives every so many layers none, and a string of
// L and G is repeated.
Result<FamilyReader::OfLayer> read_pattern(const FamilyReader& reader) {
  const std::string key = "sliding_window_pattern";
  const nlohmann::json* value = reader.fields.find(key);
  if (value == nullptr || !value->is_string()) {
    NMM_ASSIGN(const int64_t pattern, reader.count(key, 4));
    if (pattern == 0) return reader.fields.wrong(key, "an integer from 1");
    return FamilyReader::OfLayer([pattern](int64_t i) { return (i + 1) % pattern != 0; });
  }
  const auto letters = value->get<std::string>();
  if (letters.empty() || letters.find_first_not_of("LG") != std::string::npos)
    return reader.fields.wrong(key, "an integer or a string of L and G");
  const int64_t last = reader.config.num_hidden_layers - 1;
  return FamilyReader::OfLayer([letters, last](int64_t i) {
    return i != last && letters[static_cast<size_t>(i) % letters.size()] == 'L';
  });
}

Status read_exaone4(FamilyReader& reader) {
  ModelConfig& config = reader.config;
  config.input_norms = false;
  config.output_norms = true;
  config.qk_norm = QkNorm::kPerHead;
  NMM_TRY(reader.one_rope());
  NMM_ASSIGN(const int64_t window, reader.window());
  if (window == 0) return {};
  NMM_ASSIGN(const auto pattern, read_pattern(reader));
  NMM_ASSIGN(const auto sliding, reader.sliding_layers(pattern));
  reader.set_windows(sliding, window);
  reader.drop_rope([&](int64_t i) { return sliding[static_cast<size_t>(i)]; });
  return {};
}

// llama.cpp has windows only in models of 64 layers.
Status complete_exaone4(const GgufFacts& facts, nlohmann::ordered_json& config) {
  constexpr int64_t kLayersWithWindows = 64;
  NMM_ASSIGN(const auto window, facts.integer("attention.sliding_window"));
  const bool windows = window && config.at("num_hidden_layers") == kLayersWithWindows;
  config["sliding_window"] = windows ? nlohmann::ordered_json(*window) : nlohmann::ordered_json();
  return {};
}

void write_exaone4(const ModelConfig& config, GgufKeys& keys) {
  write_windows(config, /*pattern=*/false, keys);
}

}  // namespace

namespace family {

const Family& exaone4() {
  static const Family family = {
      .class_name = "Exaone4ForCausalLM",
      .model_type = "exaone4",
      .defaults = R"({"rms_norm_eps":1e-5,"num_key_value_heads":32,"sliding_window":4096})",
      .keys = {"layer_types", "sliding_window_pattern"},
      .read = read_exaone4,
      .names = {.renamed = {{"post_attention_layernorm", "self_attn.output_norm"},
                            {"post_feedforward_layernorm", "mlp.output_norm"}}},
      .gguf = {{.architecture = "exaone4",
                .complete = complete_exaone4,
                .own_windows = true,
                .write = write_exaone4,
                .loads_rope_divisors = true}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
