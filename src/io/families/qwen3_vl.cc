// The language model of Qwen3-VL, which is a Qwen3.

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

using nlohmann::json;

Result<json> rewrite_qwen3_vl(const json& document, const std::string& source) {
  NMM_ASSIGN(const json text, language_config(document, source, false));
  json qwen3 = json::parse(R"({"rope_theta":500000.0,"vocab_size":151936,"hidden_size":4096,
      "intermediate_size":22016,"num_hidden_layers":32,"num_attention_heads":32,
      "max_position_embeddings":128000})");
  if (text.contains("rope_parameters")) qwen3.erase("rope_theta");
  qwen3.update(text);
  // The class has no window.
  qwen3["use_sliding_window"] = false;
  NMM_TRY(plain_rope(qwen3, source));
  set_family(qwen3, "Qwen3ForCausalLM", "qwen3");
  return qwen3;
}

Status complete_qwen3vl(const GgufFacts&, nlohmann::ordered_json& config) {
  config["architectures"] = {"Qwen3ForCausalLM"};
  config["model_type"] = "qwen3";
  return {};
}

}  // namespace

namespace family {

const Family& qwen3_vl() {
  static const Family family = {
      .class_name = "Qwen3VLForConditionalGeneration",
      .model_type = "qwen3_vl",
      .other_names = {"qwen3_vl_text", "Qwen3VLTextForCausalLM"},
      .rewrite = rewrite_qwen3_vl,
      .gguf = {{.architecture = "qwen3vl", .complete = complete_qwen3vl}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
