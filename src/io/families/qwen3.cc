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
      // llama.cpp's "openelm" is a tied Qwen3 whose layers have MLPs of their own sizes.
      .gguf = {
          {.architecture = "qwen3"},
          {.architecture = "openelm",
           .names = {.sliced = {{"attn_qkv",
                                 {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}}}},
           .head = GgufFamily::Head::kTable}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
