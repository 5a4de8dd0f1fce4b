// ERNIE 4.5 without experts: Llama whose RoPE turns neighbouring elements.

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

using nlohmann::json;

Result<json> rewrite_ernie(const json& document, const std::string& source) {
  const JsonFields fields(document, source);
  json llama = json::parse(R"({"rms_norm_eps":1e-5,"rope_theta":500000.0,"head_dim":128,
                               "num_key_value_heads":2,"tie_word_embeddings":true})");
  if (document.contains("rope_parameters")) llama.erase("rope_theta");
  llama.update(document);
  NMM_ASSIGN(const auto biases, fields.boolean("use_bias"));
  llama["attention_bias"] = llama["mlp_bias"] = biases.value_or(false);
  for (const char* key : {"use_bias", "compression_ratio", "weight_share_add_bias"})
    llama.erase(key);
  set_family(llama, "LlamaForCausalLM", "llama");
  return llama;
}

Status complete_ernie(const GgufFacts& facts, nlohmann::ordered_json& config) {
  if (facts.has_tensor("blk.0.ffn_up.bias"))
    return facts.wrong("feed_forward_length", "an MLP without biases (llama.cpp reads none)");
  config["architectures"] = {"LlamaForCausalLM"};
  config["model_type"] = "llama";
  config["attention_bias"] = facts.has_tensor("blk.0.attn_q.bias");
  return {};
}

}  // namespace

namespace family {

const Family& ernie4_5() {
  static const Family family = {.class_name = "Ernie4_5ForCausalLM",
                                .model_type = "ernie4_5",
                                .other_names = {"Ernie4_5_ForCausalLM"},
                                .rewrite = rewrite_ernie,
                                .names = {.neighbouring_pairs = true},
                                .gguf = {{.architecture = "ernie4_5",
                                          .names = {.neighbouring_pairs = true},
                                          .complete = complete_ernie}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
