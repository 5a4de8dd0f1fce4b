#include "io/adapter_config.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "io/gguf.h"
#include "io/json_file.h"
#include "io/ordered_json.h"
#include "io/text_file.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Assumed: no model has a matrix with a side longer than this.
constexpr int64_t kMaxRank = int64_t{1} << 20;

// Keys of settings that only matter in training, or that the names of the tensors tell, too.
// fan_in_fan_out stands for transposed weights, which no family here has: PEFT ignores it for them.
constexpr std::string_view kTrainingKeys[] = {
    "auto_mapping", "revision", "task_type", "inference_mode", "peft_version", "lora_dropout",
    "fan_in_fan_out", "bias", "target_modules", "exclude_modules", "modules_to_save",
    "layers_to_transform", "layers_pattern", "megatron_config", "megatron_core", "loftq_config",
    "eva_config", "corda_config", "lora_ga_config", "velora_config", "qalora_group_size",
    "runtime_config", "lora_bias", "unsloth_fixed",
    // Keys of PEFT before 0.4.
    "merge_weights", "enable_lora"};

// Settings that are refused unless they are off, with what they mean.
struct RefusedSetting {
  const char* key;
  std::string_view meaning;
};
constexpr RefusedSetting kRefusedSettings[] = {
    {"layer_replication", "layers that occur several times"},
    {"alora_invocation_tokens", "an adapter that acts after certain tokens only (aLoRA)"},
    {"use_qalora", "pooled inputs (QA-LoRA)"},
    {"arrow_config", "a router between adapters (Arrow)"},
    {"use_bdlora", "block-diagonal matrices (BD-LoRA)"},
    {"kasa_config", "singular values between A and B (KaSA)"},
    {"monteclora_config", "random matrices (MonteCLoRA)"},
    {"trainable_token_indices", "rows of the embedding table that were trained one by one"},
    {"target_parameters", "parameters of experts"}};

// Values of init_lora_weights with which PEFT changes the base model before training. The adapter
// then belongs to the changed model, which only PEFT can make again.
constexpr std::string_view kChangesBase[] = {"pissa", "olora", "corda", "lora_ga", "loftq"};

bool is_off_setting(const json& value) {
  return value.is_null() || value == json(false) ||
         ((value.is_array() || value.is_object() || value.is_string()) && value.empty());
}

Status check_peft_type(const JsonFields& fields) {
  NMM_ASSIGN(const auto type, fields.string("peft_type"));
  if (!type)
    return fail("{}: \"peft_type\" is missing: expected a LoRA adapter as PEFT writes it",
                fields.source());
  if (*type == "LORA") return {};
  return fail(
      "{}: \"peft_type\": expected \"LORA\", found {:?}; merge this adapter in Python: "
      "PeftModel.from_pretrained(BASE, DIR).merge_and_unload().save_pretrained(NEW)",
      fields.source(), *type);
}

Status check_initialization(const JsonFields& fields) {
  const json* const value = fields.find("init_lora_weights");
  if (value == nullptr || !value->is_string()) return {};
  const auto& name = value->get_ref<const std::string&>();
  if (std::ranges::none_of(kChangesBase, [&](auto start) { return name.starts_with(start); }))
    return {};
  return fail(
      "{}: \"init_lora_weights\": {:?} changes the base model before training, so that the adapter "
      "does not fit the model itself; convert it in Python: model.save_pretrained(NEW, "
      "path_initial_model_for_weight_conversion=INITIAL_ADAPTER)",
      fields.source(), name);
}

Status check_adapter_keys(const JsonFields& fields, const json& document) {
  constexpr std::string_view kRead[] = {"peft_type",         "r",
                                        "lora_alpha",        "use_rslora",
                                        "use_dora",          "base_model_name_or_path",
                                        "rank_pattern",      "alpha_pattern",
                                        "init_lora_weights", "ensure_weight_tying"};
  for (const auto& [key, value] : document.items()) {
    if (is_off_setting(value)) continue;
    const auto refused = std::ranges::find(kRefusedSettings, key, &RefusedSetting::key);
    if (refused != std::end(kRefusedSettings))
      return fail("{}: {:?}: {} cannot be merged here; merge the adapter in Python if PEFT can",
                  fields.source(), key, refused->meaning);
    const bool known = std::ranges::find(kRead, key) != std::end(kRead) ||
                       std::ranges::find(kTrainingKeys, key) != std::end(kTrainingKeys);
    if (!known)
      return fail(
          "{}: {:?} is not known, found {}; if it does not change what the adapter computes, "
          "remove it, else merge the adapter in Python",
          fields.source(), key, describe_json(value));
  }
  return {};
}

// Returns whether PEFT, which takes keys of patterns as regular expressions, reads this one as
// plain text. A dot stands for itself.
bool is_plain_module(std::string_view key) {
  return !key.empty() && std::ranges::all_of(key, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  });
}

// Keys in the order of the file decide, so it is parsed once more by a parser that keeps it.
Result<AdapterConfig::Pattern> read_module_pattern(const nlohmann::ordered_json& document,
                                                   const std::string& key,
                                                   const std::string& source) {
  AdapterConfig::Pattern pattern;
  const auto found = document.find(key);
  if (found == document.end() || found->is_null()) return pattern;
  if (!found->is_object()) return fail("{}: {:?}: expected an object", source, key);
  for (const auto& [module, value] : found->items()) {
    std::string_view plain = module;
    const bool whole = plain.starts_with('^');
    if (whole) plain.remove_prefix(1);
    if (plain.ends_with('$')) plain.remove_suffix(1);
    if (!is_plain_module(plain))
      return fail("{}: {:?}: {:?} is a regular expression; expected names of modules", source, key,
                  module);
    const double number = value.is_number() ? value.get<double>() : std::nan("");
    if (!(std::abs(number) <= kMaxRank))
      return fail("{}: {:?}: {:?}: expected a number up to {}, found another value", source, key,
                  module, kMaxRank);
    pattern.emplace_back((whole ? "^" : "") + std::string(plain), number);
  }
  return pattern;
}

bool names_module(std::string_view pattern, std::string_view module) {
  if (pattern.starts_with('^')) return module == pattern.substr(1);
  if (!module.ends_with(pattern)) return false;
  const size_t before = module.size() - pattern.size();
  return before == 0 || module[before - 1] == '.';
}

double value_in(const AdapterConfig::Pattern& pattern, std::string_view module, double otherwise) {
  const auto found = std::ranges::find_if(
      pattern, [&](const auto& entry) { return names_module(entry.first, module); });
  return found == pattern.end() ? otherwise : found->second;
}

// Says what a folder without adapter_config.json is.
Error no_adapter(const fs::path& folder) {
  std::error_code error;
  const auto has = [&](const char* name) { return fs::exists(folder / name, error); };
  std::string found = "no such file is in the folder";
  if (is_gguf(folder))
    found =
        "this is a GGUF file; use the adapter that PEFT has written, as it was before conversion";
  else if (!fs::exists(folder, error))
    found = "there is no such folder";
  else if (!fs::is_directory(folder, error))
    found = "this is a file; name its folder";
  else if (has("adapters.safetensors") || has("adapters.npz"))
    found = "the folder has an adapter of MLX; fuse it with mlx_lm.fuse";
  else if (has("pytorch_lora_weights.safetensors"))
    found = "the folder has an adapter of Diffusers, which is none of a language model";
  else if (has("config.json"))
    found = "the folder holds a whole model, which needs no --adapter";
  return fail("{}: expected the folder of a LoRA adapter with {} as PEFT writes it: {}",
              folder.string(), kAdapterConfigName, found);
}

}  // namespace

double AdapterConfig::rank_of(std::string_view module) const {
  return value_in(rank_pattern, module, rank);
}

double AdapterConfig::scale_of(std::string_view module) const {
  const double of_rank = rank_of(module);
  return value_in(alpha_pattern, module, alpha) / (rank_stabilized ? std::sqrt(of_rank) : of_rank);
}

Result<AdapterConfig> AdapterConfig::parse(std::string_view text, const std::string& source) {
  const std::string strict = strict_json(text);
  NMM_ASSIGN(const json document, parse_json_object(strict, source));
  const JsonFields fields(document, source);
  NMM_TRY(check_peft_type(fields));
  NMM_TRY(check_initialization(fields));
  NMM_TRY(check_adapter_keys(fields, document));
  AdapterConfig config;
  NMM_ASSIGN(config.rank, fields.number_in("r", 1, kMaxRank, config.rank));
  NMM_ASSIGN(config.alpha, fields.number_in("lora_alpha", -kMaxRank, kMaxRank, config.alpha));
  NMM_ASSIGN(const auto stabilized, fields.boolean("use_rslora"));
  NMM_ASSIGN(const auto magnitudes, fields.boolean("use_dora"));
  NMM_ASSIGN(const auto tied, fields.boolean("ensure_weight_tying"));
  NMM_ASSIGN(const auto base, fields.string("base_model_name_or_path"));
  config.rank_stabilized = stabilized.value_or(false);
  config.has_magnitudes = magnitudes.value_or(false);
  config.tied_tables = tied.value_or(false);
  config.base = base.value_or("");
  const auto ordered = parse_ordered_json(strict);
  NMM_ASSIGN(config.rank_pattern, read_module_pattern(ordered, "rank_pattern", source));
  NMM_ASSIGN(config.alpha_pattern, read_module_pattern(ordered, "alpha_pattern", source));
  for (const auto& [module, rank] : config.rank_pattern) {
    if (rank < 1)
      return fail("{}: \"rank_pattern\": {:?}: expected a rank of at least 1, found {}", source,
                  module, rank);
  }
  return config;
}

Result<AdapterConfig> AdapterConfig::load(const fs::path& folder) {
  const fs::path path = folder / kAdapterConfigName;
  std::error_code error;
  if (fs::symlink_status(path, error).type() == fs::file_type::not_found ||
      !fs::is_directory(folder, error))
    return no_adapter(folder);
  NMM_ASSIGN(const std::string text, read_text_file(path, kMaxConfigBytes));
  return parse(text, path.string());
}

}  // namespace neuronmm::io
