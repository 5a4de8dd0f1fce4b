// Ministral 3: Mistral whose queries grow with their position.

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

Status read_ministral3(FamilyReader& reader) {
  NMM_ASSIGN(const int64_t window, reader.window());
  reader.set_windows(std::vector<bool>(reader.config.layers.size(), true), window);
  NMM_TRY(reader.one_rope());
  const nlohmann::json* object = reader.rope_object();
  if (object == nullptr) return reader.fields.missing("rope_parameters");
  const JsonFields rope(*object, reader.fields.source());
  QueryTemperature& temperature = reader.config.query_temperature;
  NMM_ASSIGN(temperature.beta, rope.number_in("llama_4_scaling_beta", 0.0, 1e9));
  if (temperature.beta == 0.0) return {};
  NMM_ASSIGN(const double original, rope.number_in("original_max_position_embeddings", 1.0, 1e9));
  temperature.original_context = static_cast<int64_t>(original);
  return {};
}

Status complete_ministral3(const GgufFacts& facts, nlohmann::ordered_json& config) {
  NMM_ASSIGN(const auto beta, facts.number("attention.temperature_scale"));
  NMM_ASSIGN(const auto mscale, facts.number("rope.scaling.yarn_log_multiplier"));
  nlohmann::ordered_json& rope = config["rope_scaling"];
  if (rope.is_null()) rope = {{"rope_type", "default"}};
  if (mscale && *mscale != 0.0) rope["mscale"] = rope["mscale_all_dim"] = *mscale;
  rope["llama_4_scaling_beta"] = beta.value_or(0.0);
  if (!rope.contains("original_max_position_embeddings"))
    rope["original_max_position_embeddings"] = config.at("max_position_embeddings");
  return {};
}

void write_ministral3(const ModelConfig& config, GgufKeys& keys) {
  if (config.query_temperature.beta != 0.0)
    keys.number("attention.temperature_scale", config.query_temperature.beta);
  const auto* const yarn =
      config.ropes.empty() ? nullptr : std::get_if<YarnRopeScaling>(&config.ropes.front().scaling);
  if (yarn == nullptr) return;
  if (yarn->mscale_all_dim != 0.0)
    keys.number("rope.scaling.yarn_log_multiplier", yarn->mscale_all_dim);
  keys.number("rope.scaling.yarn_beta_fast", yarn->beta_fast);
  keys.number("rope.scaling.yarn_beta_slow", yarn->beta_slow);
}

}  // namespace

namespace family {

const Family& ministral3() {
  static const Family family = {
      .class_name = "Ministral3ForCausalLM",
      .model_type = "ministral3",
      .defaults = R"({"rms_norm_eps":1e-5,"num_key_value_heads":8,"head_dim":128,
          "rope_parameters":{"rope_type":"yarn","rope_theta":1000000.0,"factor":16.0,
          "original_max_position_embeddings":16384,"beta_fast":32.0,"beta_slow":1.0,
          "mscale":1.0,"mscale_all_dim":1.0,"llama_4_scaling_beta":0.1}})",
      .keys = {"layer_types"},
      .read = read_ministral3,
      .gguf = {{.architecture = "mistral3",
                .names = {.neighbouring_pairs = true},
                .keys = {"rope.scaling.yarn_log_multiplier"},
                .complete = complete_ministral3,
                .write = write_ministral3,
                .loads_output_biases = true,
                .loads_rope_divisors = true}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
