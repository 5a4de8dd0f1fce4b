// OLMo 3: OLMo 2 with windows in most layers. RoPE scaling holds for the others.

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

Status read_olmo3(FamilyReader& reader) {
  ModelConfig& config = reader.config;
  NMM_TRY(reader.attention_biases());
  config.input_norms = false;
  config.output_norms = true;
  config.qk_norm = QkNorm::kWholeWidth;
  NMM_ASSIGN(const int64_t window, reader.window());
  NMM_ASSIGN(const auto sliding, reader.sliding_layers([](int64_t i) { return (i + 1) % 4 != 0; }));
  reader.set_windows(sliding, window);
  // transformers gives a base outside of "rope_parameters" to the layers without a window only.
  constexpr double kTheta = 500000.0;
  return reader.two_ropes(sliding, {.default_theta = kTheta, .layer_type = "full_attention"},
                          {.default_theta = kTheta,
                           .layer_type = "sliding_attention",
                           .theta_key = "",
                           .scaling = false});
}

}  // namespace

namespace family {

const Family& olmo3() {
  static const Family family = {
      .class_name = "Olmo3ForCausalLM",
      .model_type = "olmo3",
      .defaults = R"({"rms_norm_eps":1e-5,"sliding_window":4096})",
      .keys = {"attention_bias", "layer_types"},
      .read = read_olmo3,
      .names = {.renamed = {{"post_attention_layernorm", "self_attn.output_norm"},
                            {"post_feedforward_layernorm", "mlp.output_norm"}}},
      .written_as = "olmo2"};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
