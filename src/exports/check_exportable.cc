#include "exports/check_exportable.h"

#include <algorithm>
#include <map>
#include <variant>

#include <fmt/ranges.h>

namespace neuronmm::exports {
namespace {

using io::Architecture;

bool has_rope(const io::ModelConfig& config, bool llama3_too) {
  return std::holds_alternative<std::monostate>(config.ropes[0].scaling) ||
         (llama3_too && std::holds_alternative<io::Llama3RopeScaling>(config.ropes[0].scaling));
}

// Returns the class if it is none of those that both targets were read for, or "".
std::string other_class(const io::ModelConfig& config) {
  constexpr Architecture kKnown[] = {Architecture::kLlama, Architecture::kMistral,
                                     Architecture::kQwen2, Architecture::kQwen3};
  if (std::ranges::find(kKnown, config.architecture) == std::end(kKnown))
    return fmt::format("class for {} that was read", io::architecture_name(config.architecture));
  return config.mlp_bias ? "biases in the MLP" : "";
}

// Returns what the plugin's Llama and Qwen3 models, whose sources were read, lack for this config,
// or "". Mistral's layers are Llama's.
std::string missing_in_vllm(const io::ModelConfig& config) {
  if (const std::string other = other_class(config); !other.empty()) return other;
  const bool qwen3 = config.architecture == Architecture::kQwen3;
  if (config.attention_bias) return "biases of q, k and v";
  if (config.has_window()) return "sliding window";
  if (qwen3 && config.tie_word_embeddings) return "LM head that is tied to the embeddings in Qwen3";
  if (!has_rope(config, !qwen3)) {
    return fmt::format("RoPE scaling \"{}\"", io::rope_type(config.ropes[0].scaling));
  }
  return {};
}

// Returns what NxDI's models lack for this config, or "". Sources that were read: modeling_llama
// (also used for Mistral), modeling_qwen2 and modeling_qwen3. Qwen2's heads have hidden_size /
// heads elements, and Qwen2 and Qwen3 use RoPE without scaling, whatever the config says.
std::string missing_in_nxdi(const io::ModelConfig& config) {
  if (const std::string other = other_class(config); !other.empty()) return other;
  const bool mistral = config.architecture == Architecture::kMistral;
  const bool llama = mistral || config.architecture == Architecture::kLlama;
  if (config.has_window() && !mistral) return "sliding window outside Mistral";
  const bool any_head_dim = llama || config.architecture == Architecture::kQwen3;
  if (!any_head_dim && config.head_dim * config.num_attention_heads != config.hidden_size) {
    return fmt::format("head_dim of {} in {}", config.head_dim,
                       io::architecture_name(config.architecture));
  }
  if (!has_rope(config, llama)) {
    return fmt::format("RoPE scaling \"{}\" in {}", io::rope_type(config.ropes[0].scaling),
                       io::architecture_name(config.architecture));
  }
  return {};
}

std::string layers_text(const std::vector<int64_t>& layers) {
  if (layers.size() <= 8) return fmt::format("{}", fmt::join(layers, ", "));
  return fmt::format("{} and {} more", fmt::join(layers.begin(), layers.begin() + 8, ", "),
                     layers.size() - 8);
}

}  // namespace

Status check_exportable(const io::ModelConfig& config, Target target, const std::string& source) {
  NMM_TRY(io::refuse_mixtures(
      config, source, fmt::format("the export to {}", target_name(target)),
      "run the original folder with what the target's own library has for mixtures"));
  if (config.quantization) {
    return fail(
        "{}: weights of {} are not supported by {}, which computes in bf16: export the folder "
        "that they were rounded from",
        source, io::quantization_text(*config.quantization), target_name(target));
  }
  if (!config.compression) {
    return fail(
        "{}: is not a compressed model: config.json has no \"neuronmm_compression\"; {} runs dense "
        "ones as they are",
        source, target_name(target));
  }
  if (config.dtype != DType::kBF16) {
    return fail("{}: config.json: \"torch_dtype\": expected bfloat16, which {} computes in", source,
                target_name(target));
  }
  const bool vllm = target == Target::kVllmNeuron;
  const std::string missing = vllm ? missing_in_vllm(config) : missing_in_nxdi(config);
  if (missing.empty()) return {};
  const bool other_target_supports =
      (vllm ? missing_in_nxdi(config) : missing_in_vllm(config)).empty();
  return fail("{}: the models of {} have no {}{}", source, target_name(target), missing,
              !other_target_supports ? ""
              : vllm                 ? "; nxdi has"
                                     : "; vllm-neuron has");
}

KernelUse kernel_use(const io::ModelConfig& config, Target target) {
  KernelUse use;
  if (config.compression->form != "uv") {
    use.notes.push_back(
        fmt::format("all layers: plain torch products, because the form \"{}\" has no "
                    "fused kernel in an export",
                    config.compression->form));
    return use;
  }
  std::map<int64_t, std::vector<int64_t>> by_rank;
  std::vector<int64_t> dense;
  for (size_t i = 0; i < config.compression->ranks.size(); ++i) {
    const io::MlpShape& mlp = config.compression->ranks[i];
    const auto layer = static_cast<int64_t>(i);
    if (mlp.gate == mlp.up && mlp.up == mlp.down) {
      (mlp.gate == 0 ? dense : by_rank[mlp.gate]).push_back(layer);
    } else {
      use.unequal.push_back(layer);
    }
  }
  if (!use.unequal.empty()) {
    use.notes.push_back(
        fmt::format("layers {}: plain torch products without our fused kernel, because their ranks "
                    "differ within an MLP",
                    layers_text(use.unequal)));
  }
  if (!dense.empty()) {
    use.notes.push_back(
        fmt::format("layers {}: dense, as plain torch products", layers_text(dense)));
  }
  if (target == Target::kNxdi) {
    use.notes.push_back(
        "no kernels: they are written for NKI 0.4 and later, which NxDI's releases do not have");
    return use;
  }
  for (auto& [rank, layers] : by_rank) use.fused.push_back({rank, std::move(layers)});
  return use;
}

}  // namespace neuronmm::exports
