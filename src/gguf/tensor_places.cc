#include "gguf/tensor_places.h"

#include <algorithm>
#include <charconv>
#include <span>

#include <fmt/format.h>

#include "base/result.h"

namespace neuronmm::gguf {
namespace {

struct TensorRename {
  std::string_view folder, gguf;
};
constexpr TensorRename kModelTensors[] = {
    {"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}, {"lm_head", "output"}};
constexpr TensorRename kLayerTensors[] = {
    {"input_layernorm", "attn_norm"},     {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},       {"self_attn.v_proj", "attn_v"},
    {"self_attn.q_norm", "attn_q_norm"},  {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.o_proj", "attn_output"},  {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},        {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},        {"self_attn.output_norm", "post_attention_norm"},
    {"mlp.output_norm", "post_ffw_norm"}, {"mlp.router", "ffn_gate_inp"}};
// The matrices of all experts of a layer are one tensor. Files before 2024 have one for each.
constexpr TensorRename kExpertTensors[] = {
    {"gate_proj", "ffn_gate"}, {"up_proj", "ffn_up"}, {"down_proj", "ffn_down"}};

std::string_view find_gguf_name(std::span<const TensorRename> names, std::string_view folder) {
  const auto found = std::ranges::find(names, folder, &TensorRename::folder);
  // The list model/tensor_specs has no other names.
  NMM_CHECK(found != names.end());
  return found->gguf;
}

// Returns the place of a matrix or bias of an expert: `within` is "3.up_proj".
TensorPlace place_of_expert(std::string_view layer, std::string_view within,
                            std::string_view ending) {
  const size_t dot = within.find('.');
  TensorPlace place;
  std::from_chars(within.data(), within.data() + dot, place.expert);
  const std::string_view name = find_gguf_name(kExpertTensors, within.substr(dot + 1));
  place.name = fmt::format("blk.{}.{}_exps{}", layer, name, ending);
  place.alone = fmt::format("blk.{}.{}.{}{}", layer, name, place.expert, ending);
  return place;
}

}  // namespace

TensorPlace place_of(std::string_view folder_name, const io::ModuleNames& names) {
  constexpr std::string_view kLayers = "model.layers.";
  const size_t dot = folder_name.rfind('.');
  const std::string_view name = folder_name.substr(0, dot), ending = folder_name.substr(dot);
  if (!name.starts_with(kLayers))
    return {fmt::format("{}{}", find_gguf_name(kModelTensors, name), ending)};
  const std::string_view rest = name.substr(kLayers.size());
  const size_t end = rest.find('.');
  const std::string_view layer = rest.substr(0, end), module = rest.substr(end + 1);
  constexpr std::string_view kExperts = "mlp.experts.";
  if (module.starts_with(kExperts))
    return place_of_expert(layer, module.substr(kExperts.size()), ending);
  // The only tensor of a layer that has neither of the usual endings.
  if (ending == ".sinks") return {fmt::format("blk.{}.attn_sinks.weight", layer)};
  for (const io::SlicedModule& sliced : names.sliced) {
    if (std::ranges::find(sliced.parts, module) != sliced.parts.end())
      return {fmt::format("blk.{}.{}{}", layer, sliced.own, ending), &sliced, module};
  }
  const auto renamed = std::ranges::find(names.renamed, module, &io::RenamedModule::canonical);
  const std::string_view own =
      renamed != names.renamed.end() ? renamed->own : find_gguf_name(kLayerTensors, module);
  return {fmt::format("blk.{}.{}{}", layer, own, ending), nullptr, module};
}

int64_t interleaved_heads(std::string_view name, const io::ModelConfig& config) {
  if (name.find(".q_proj.") != std::string_view::npos) return config.num_attention_heads;
  if (name.find(".k_proj.") != std::string_view::npos) return config.num_key_value_heads;
  return 0;
}

}  // namespace neuronmm::gguf
