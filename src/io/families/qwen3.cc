// Qwen3: Llama with a norm of every head of q and k.

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

Status read_qwen3(FamilyReader& reader) {
  NMM_TRY(reader.attention_biases());
  reader.config.qk_norm = QkNorm::kPerHead;
  NMM_TRY(reader.qwen_windows());
  return reader.one_rope();
}

}  // namespace

namespace family {

const Family& qwen3() {
  static const Family family = {
      .class_name = "Qwen3ForCausalLM",
      .model_type = "qwen3",
      .defaults =
          R"({"num_key_value_heads":32,"head_dim":128,"sliding_window":4096,"max_window_layers":28})",
      .keys = {"attention_bias", "layer_types"},
      .read = read_qwen3,
      .gguf = {{.architecture = "qwen3"}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
