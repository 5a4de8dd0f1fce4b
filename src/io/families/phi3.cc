// Phi-3 and Phi-4: Llama with fused matrices, and in some sizes long RoPE lists and heads that turn
// only in part.

#include <cmath>

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

constexpr SlicedModule kPhi3Qkv = {"self_attn.qkv_proj",
                                   {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}};
constexpr SlicedModule kPhi3GateUp = {"mlp.gate_up_proj", {"mlp.gate_proj", "mlp.up_proj", ""}};

Status read_phi3(FamilyReader& reader) {
  NMM_ASSIGN(const int64_t window, reader.window());
  reader.set_windows(std::vector<bool>(reader.config.layers.size(), true), window);
  return reader.one_rope({.partial = true, .old_longrope_names = true});
}

Status complete_phi3(const GgufFacts& facts, nlohmann::ordered_json& config) {
  NMM_ASSIGN(const auto width, facts.integer("rope.dimension_count"));
  const int64_t head_dim =
      config.at("hidden_size").get<int64_t>() / config.at("num_attention_heads").get<int64_t>();
  config.erase("head_dim");
  const int64_t turning = width.value_or(head_dim);
  if (turning < 2 || turning > head_dim || turning % 2 != 0)
    return facts.wrong("rope.dimension_count", fmt::format("an even number up to {}", head_dim));
  if (turning != head_dim)
    config["partial_rotary_factor"] = static_cast<double>(turning) / static_cast<double>(head_dim);
  NMM_ASSIGN(const auto original, facts.integer("rope.scaling.original_context_length"));
  if (original) config["original_max_position_embeddings"] = *original;
  if (!facts.has_tensor("rope_factors_long.weight")) return {};
  NMM_ASSIGN(const auto longer, facts.tensor("rope_factors_long.weight", turning / 2));
  NMM_ASSIGN(const auto shorter, facts.tensor("rope_factors_short.weight", turning / 2));
  config["rope_scaling"] = {
      {"rope_type", "longrope"}, {"long_factor", longer}, {"short_factor", shorter}};
  NMM_ASSIGN(const auto factor, facts.number("rope.scaling.attn_factor"));
  if (factor) config["rope_scaling"]["attention_factor"] = *factor;
  return {};
}

// llama.cpp turns by the short list up to the original context, and by the long one beyond.
void write_phi3(const ModelConfig& config, GgufKeys& keys) {
  const auto* const rope =
      config.ropes.empty() ? nullptr : std::get_if<LongRopeScaling>(&config.ropes.front().scaling);
  if (rope == nullptr) return;
  const double original = rope->original_max_position_embeddings;
  keys.integer("rope.scaling.original_context_length", static_cast<int64_t>(original));
  const double usual =
      rope->factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(rope->factor) / std::log(original));
  keys.number("rope.scaling.attn_factor", rope->attention_factor.value_or(usual));
  keys.tensor("rope_factors_short.weight", rope->short_factor);
  keys.tensor("rope_factors_long.weight",
              rope->long_factor.empty() ? rope->short_factor : rope->long_factor);
}

}  // namespace

namespace family {

const Family& phi3() {
  static const Family family = {
      .class_name = "Phi3ForCausalLM",
      .model_type = "phi3",
      .defaults = R"({"rms_norm_eps":1e-5,"original_max_position_embeddings":4096})",
      .keys = {"full_attn_mod", "interpolate_factor", "attention_bias"},
      .read = read_phi3,
      .names = {.sliced = {kPhi3Qkv, kPhi3GateUp}},
      .gguf = {{.architecture = "phi3",
                .names = {.sliced = {{"attn_qkv", kPhi3Qkv.parts}, {"ffn_up", kPhi3GateUp.parts}}},
                .keys = {"rope.scaling.attn_factor"},
                .complete = complete_phi3,
                .own_rope = true,
                .write = write_phi3}}};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
