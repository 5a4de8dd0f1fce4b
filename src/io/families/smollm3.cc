// SmolLM3: Llama with layers that do not turn queries and keys.

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

using nlohmann::json;

// Reads "no_rope_layers", in which 1 stands for a layer with RoPE.
Result<std::vector<bool>> read_rope_layers(const FamilyReader& reader) {
  const auto layers = static_cast<size_t>(reader.config.num_hidden_layers);
  std::vector<bool> with_rope(layers);
  NMM_ASSIGN(const int64_t interval, reader.count("no_rope_layer_interval", 4));
  const json* list = reader.fields.find("no_rope_layers");
  if (list == nullptr && interval == 0)
    return reader.fields.wrong("no_rope_layer_interval", "an integer from 1");
  if (list != nullptr && (!list->is_array() || list->size() < layers))
    return reader.fields.wrong("no_rope_layers", fmt::format("a list of {} numbers", layers));
  for (size_t i = 0; i < layers; ++i) {
    if (list == nullptr) {
      with_rope[i] = (i + 1) % static_cast<size_t>(interval) != 0;
    } else if (list->at(i) != 0 && list->at(i) != 1) {
      return reader.fields.wrong("no_rope_layers", "numbers 0 and 1");
    } else {
      with_rope[i] = list->at(i) == 1;
    }
  }
  return with_rope;
}

Status read_smollm3(FamilyReader& reader) {
  NMM_TRY(reader.attention_biases());
  NMM_ASSIGN(reader.config.mlp_bias, reader.flag("mlp_bias"));
  NMM_ASSIGN(const auto with_rope, read_rope_layers(reader));
  const auto has_rope = [&](int64_t layer) { return with_rope[static_cast<size_t>(layer)]; };
  // The flag decides only for files that do not list the layers, as in transformers.
  NMM_ASSIGN(const bool use_window, reader.flag("use_sliding_window"));
  NMM_ASSIGN(const int64_t window, reader.window());
  NMM_ASSIGN(const auto sliding,
             reader.sliding_layers([&](int64_t i) { return use_window && !has_rope(i); }));
  reader.set_windows(sliding, window);
  NMM_TRY(reader.one_rope({.default_theta = 2000000.0}));
  reader.drop_rope(has_rope);
  return {};
}

}  // namespace

namespace family {

const Family& smollm3() {
  static const Family family = {
      .class_name = "SmolLM3ForCausalLM",
      .model_type = "smollm3",
      .defaults = R"({"num_key_value_heads":4,"tie_word_embeddings":true})",
      .keys = {"attention_bias", "mlp_bias", "no_rope_layers", "no_rope_layer_interval",
               "layer_types"},
      .read = read_smollm3,
      // llama.cpp has no key for the layers without RoPE and takes every fourth.
      .gguf = {{.architecture = "smollm3", .names = {.neighbouring_pairs = true}}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
