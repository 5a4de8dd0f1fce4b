// Mixtral: Mistral with mixtures of experts, without a window unless the file has one.

#include "io/families/expert_tensors.h"
#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

Status read_mixtral(FamilyReader& reader) {
  NMM_TRY(reader.experts(8, 2, "intermediate_size"));
  NMM_ASSIGN(const int64_t window, reader.window());
  reader.set_windows(std::vector<bool>(reader.config.layers.size(), true), window);
  return reader.one_rope({.default_theta = 1e6});
}

}  // namespace

namespace family {

// In GGUF files it is a "llama" with experts (llama.cc).
const Family& mixtral() {
  static const Family family = {
      .class_name = "MixtralForCausalLM",
      .model_type = "mixtral",
      .defaults = R"({"rms_norm_eps":1e-5,"num_key_value_heads":8})",
      .keys = {"num_experts", "num_local_experts", "num_experts_per_tok", "router_jitter_noise"},
      .read = read_mixtral,
      .names = {.renamed = {{"block_sparse_moe.gate", "mlp.router"},
                            {"block_sparse_moe.experts.#.w1", "mlp.experts.#.gate_proj"},
                            {"block_sparse_moe.experts.#.w3", "mlp.experts.#.up_proj"},
                            {"block_sparse_moe.experts.#.w2", "mlp.experts.#.down_proj"}},
                .stacked = stacked_experts()},
      .written_as = "llama"};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
