// Qwen2: Llama with biases of q, k and v.

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

Status read_qwen2(FamilyReader& reader) {
  reader.config.attention_bias = true;
  NMM_TRY(reader.qwen_windows());
  return reader.one_rope();
}

}  // namespace

namespace family {

const Family& qwen2() {
  static const Family family = {
      .class_name = "Qwen2ForCausalLM",
      .model_type = "qwen2",
      .defaults = R"({"num_key_value_heads":32,"sliding_window":4096,"max_window_layers":28})",
      .keys = {"attention_bias", "layer_types"},
      .read = read_qwen2,
      .gguf = {{.architecture = "qwen2"}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
