// The language model of Qwen2.5-VL, which is a Qwen2.

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

using nlohmann::json;

Result<json> rewrite_qwen2_5_vl(const json& document, const std::string& source) {
  NMM_ASSIGN(const json text, language_config(document, source, false));
  json qwen2 = json::parse(R"({"rms_norm_eps":1e-5,"rope_theta":1000000.0,"num_key_value_heads":8,
      "max_window_layers":80,"vocab_size":152064,"hidden_size":8192,"intermediate_size":29568,
      "num_hidden_layers":80,"num_attention_heads":64,"max_position_embeddings":32768})");
  if (text.contains("rope_parameters")) qwen2.erase("rope_theta");
  qwen2.update(text);
  NMM_TRY(plain_rope(qwen2, source));
  set_family(qwen2, "Qwen2ForCausalLM", "qwen2");
  return qwen2;
}

Status complete_qwen2vl(const GgufFacts&, nlohmann::ordered_json& config) {
  config["architectures"] = {"Qwen2ForCausalLM"};
  config["model_type"] = "qwen2";
  return {};
}

}  // namespace

namespace family {

const Family& qwen2_5_vl() {
  static const Family family = {
      .class_name = "Qwen2_5_VLForConditionalGeneration",
      .model_type = "qwen2_5_vl",
      .other_names = {"qwen2_5_vl_text", "Qwen2_5_VLTextForCausalLM"},
      .rewrite = rewrite_qwen2_5_vl,
      .gguf = {{.architecture = "qwen2vl", .complete = complete_qwen2vl}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
