// Llama, and the many models that use its classes.

#include "io/families/expert_tensors.h"
#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

Status read_llama(FamilyReader& reader) {
  NMM_TRY(reader.attention_biases());
  NMM_ASSIGN(reader.config.mlp_bias, reader.flag("mlp_bias"));
  return reader.one_rope();
}

// A file with experts is Mixtral's.
Status complete_llama(const GgufFacts& facts, nlohmann::ordered_json& config) {
  NMM_ASSIGN(const auto experts, facts.integer("expert_count"));
  if (!experts || *experts == 0) return {};
  config["architectures"] = {"MixtralForCausalLM"};
  config["model_type"] = "mixtral";
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (config.value(key, false)) return facts.wrong("expert_count", "0 in a file with biases");
    config.erase(key);
  }
  return complete_experts(facts, config, "num_local_experts");
}

}  // namespace

namespace family {

const Family& llama() {
  static const Family family = {
      .class_name = "LlamaForCausalLM",
      .model_type = "llama",
      .keys = {"attention_bias", "mlp_bias"},
      .read = read_llama,
      // llama.cpp's "deci" is Llama whose layers have MLPs of their own sizes.
      .gguf = {{.architecture = "llama",
                .names = {.neighbouring_pairs = true},
                .keys = {"expert_count", "expert_used_count"},
                .complete = complete_llama,
                .loads_output_biases = true,
                .loads_rope_divisors = true},
               {.architecture = "deci",
                .names = {.neighbouring_pairs = true},
                .loads_output_biases = true,
                .loads_rope_divisors = true}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
