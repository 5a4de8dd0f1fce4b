// Llama, and the many models that use its classes.

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

Status read_llama(FamilyReader& reader) {
  NMM_TRY(reader.attention_biases());
  NMM_ASSIGN(reader.config.mlp_bias, reader.flag("mlp_bias"));
  return reader.one_rope();
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
