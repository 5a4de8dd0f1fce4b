// The language model of Gemma 3 with images.

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

Result<nlohmann::json> rewrite_gemma3(const nlohmann::json& document, const std::string& source) {
  NMM_ASSIGN(nlohmann::json text, language_config(document, source, true));
  set_family(text, "Gemma3ForCausalLM", "gemma3_text");
  return text;
}

}  // namespace

namespace family {

const Family& gemma3_multimodal() {
  static const Family family = {
      .class_name = "Gemma3ForConditionalGeneration",
      .model_type = "gemma3",
      .rewrite = rewrite_gemma3,
      .names = {.renamed = {{"post_attention_layernorm", "self_attn.output_norm"},
                            {"pre_feedforward_layernorm", "post_attention_layernorm"},
                            {"post_feedforward_layernorm", "mlp.output_norm"}}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
