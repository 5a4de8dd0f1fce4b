#pragma once
// Texts of config.json for tests: a small valid one, and the same with single fields changed.

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace neuronmm::io {

inline nlohmann::json small_config(std::string_view architecture = "LlamaForCausalLM") {
  return {{"architectures", {architecture}}, {"hidden_size", 64},
          {"intermediate_size", 96},         {"num_hidden_layers", 2},
          {"num_attention_heads", 4},        {"vocab_size", 100},
          {"num_key_value_heads", 4},        {"max_position_embeddings", 128}};
}

// Returns `small_config` with the fields of the JSON object `changes`. A null removes a field.
inline std::string config_with(std::string_view changes,
                               std::string_view architecture = "LlamaForCausalLM") {
  nlohmann::json config = small_config(architecture);
  config.merge_patch(nlohmann::json::parse(changes));
  return config.dump();
}

}  // namespace neuronmm::io
