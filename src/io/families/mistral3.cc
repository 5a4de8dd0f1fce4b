// The language model of Mistral 3 and Ministral 3 with images: a Mistral or a Ministral 3.

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

using nlohmann::json;

// The text model of a file that describes none.
constexpr const char* kMistral3Text = R"({"model_type":"mistral","head_dim":128,"hidden_act":"silu",
    "hidden_size":5120,"intermediate_size":32768,"max_position_embeddings":131072,
    "num_attention_heads":32,"num_hidden_layers":40,"num_key_value_heads":8,"rms_norm_eps":1e-5,
    "rope_theta":1000000000.0,"sliding_window":null,"vocab_size":131072})";

Result<json> rewrite_mistral3(const json& document, const std::string& source) {
  json complete = document;
  if (!document.contains("text_config") || document.at("text_config").is_null())
    complete["text_config"] = json::parse(kMistral3Text);
  NMM_ASSIGN(json text, language_config(complete, source, true));
  const JsonFields fields(text, source + ": \"text_config\"");
  NMM_ASSIGN(const auto type, fields.string("model_type"));
  if (type == "ministral3") {
    set_family(text, "Ministral3ForCausalLM", "ministral3");
  } else if (!type || type == "mistral") {
    set_family(text, "MistralForCausalLM", "mistral");
  } else {
    return fields.wrong("model_type", "\"mistral\" or \"ministral3\"");
  }
  return text;
}

}  // namespace

namespace family {

const Family& mistral3() {
  static const Family family = {.class_name = "Mistral3ForConditionalGeneration",
                                .model_type = "mistral3",
                                .rewrite = rewrite_mistral3};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
