#pragma once
// Reads the adapter_config.json of a LoRA adapter as PEFT writes it. A setting that would change
// what the adapter computes and that is not read here is an error that names it.
//
// Source: PEFT 0.21.2 (tuners/lora/config.py, tuners/lora/layer.py, utils/other.py).

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace neuronmm::io {

inline constexpr const char* kAdapterConfigName = "adapter_config.json";

// The settings of an adapter that decide what its matrices are multiplied with.
struct AdapterConfig {
  // A key of rank_pattern or alpha_pattern with its value. PEFT takes the first key that matches
  // the name of a module, or the end of it that begins after a dot.
  using Pattern = std::vector<std::pair<std::string, double>>;

  double rank = 8, alpha = 8;  // "r" and "lora_alpha"; PEFT's defaults
  Pattern rank_pattern, alpha_pattern;
  bool rank_stabilized = false;  // "use_rslora": the scale is alpha / sqrt(rank)
  bool has_magnitudes = false;   // "use_dora"
  bool tied_tables = false;      // "ensure_weight_tying"
  std::string base;              // "base_model_name_or_path", which only informs

  // Returns the rank of a module, such as "model.layers.0.self_attn.q_proj".
  double rank_of(std::string_view module) const;
  // Returns the factor of B·A in the module.
  double scale_of(std::string_view module) const;

  // `source` begins every message.
  static Result<AdapterConfig> parse(std::string_view text, const std::string& source);
  // Reads the file of a folder. If it is missing, the error says what the folder is instead.
  static Result<AdapterConfig> load(const std::filesystem::path& folder);
};

}  // namespace neuronmm::io
