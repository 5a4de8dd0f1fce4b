// OLMoE: Llama with mixtures of experts, with norms of q and k over their whole width, and with a
// clamp of q, k and v in some models.

#include "io/families/expert_tensors.h"
#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

Status read_olmoe(FamilyReader& reader) {
  NMM_TRY(reader.attention_biases());
  reader.config.qk_norm = QkNorm::kWholeWidth;
  NMM_TRY(reader.experts(64, 8, "intermediate_size"));
  NMM_ASSIGN(reader.config.experts->divided, reader.flag("norm_topk_prob"));
  NMM_ASSIGN(reader.config.qkv_clamp, reader.cap("clip_qkv"));
  return reader.one_rope();
}

// llama.cpp never divides the weights by their sum.
Status complete_olmoe(const GgufFacts& facts, nlohmann::ordered_json& config) {
  config["norm_topk_prob"] = false;
  return complete_experts(facts, config, "num_experts");
}

}  // namespace

namespace family {

const Family& olmoe() {
  static const Family family = {
      .class_name = "OlmoeForCausalLM",
      .model_type = "olmoe",
      .defaults = R"({"rms_norm_eps":1e-5,"intermediate_size":2048})",
      .keys = {"attention_bias", "num_experts", "num_local_experts", "num_experts_per_tok",
               "norm_topk_prob", "clip_qkv"},
      .read = read_olmoe,
      .names = {.renamed = {{"mlp.gate", "mlp.router"}}, .stacked = stacked_experts()},
      .gguf = {{.architecture = "olmoe",
                .numbers = {{"attention.clamp_kqv", "clip_qkv"}},
                .keys = {"expert_count", "expert_used_count"},
                .complete = complete_olmoe}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
