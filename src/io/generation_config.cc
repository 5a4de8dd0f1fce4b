#include "io/generation_config.h"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/mistaken_files.h"
#include "io/text_file.h"

namespace neuronmm::io {
namespace {

constexpr const char* kGenerationConfigName = "generation_config.json";
// Assumed: more tokens than any model generates.
constexpr int64_t kMaxTokenCount = int64_t{1} << 30;

Result<std::optional<double>> number_between(const JsonFields& fields, const std::string& key,
                                             double lowest, double highest) {
  NMM_ASSIGN(const std::optional<double> value, fields.number(key));
  if (value && !(*value >= lowest && *value <= highest))
    return fields.wrong(key, fmt::format("a number from {} to {}", lowest, highest));
  return value;
}

Result<std::optional<int64_t>> count_from(const JsonFields& fields, const std::string& key,
                                          int64_t lowest) {
  NMM_ASSIGN(const std::optional<int64_t> value, fields.integer(key));
  if (value && (*value < lowest || *value > kMaxTokenCount))
    return fields.wrong(key, fmt::format("an integer from {} to {}", lowest, kMaxTokenCount));
  return value;
}

Result<std::optional<std::vector<int32_t>>> ids_that_end(const JsonFields& fields) {
  const nlohmann::json* eos = fields.find("eos_token_id");
  if (eos == nullptr) return std::optional<std::vector<int32_t>>();
  std::vector<int32_t> ids;
  for (const auto& id : eos->is_array() ? *eos : nlohmann::json::array({*eos})) {
    // Some files have a negative id for "none".
    if (id.is_number_integer() && !id.is_number_unsigned()) continue;
    if (!id.is_number_unsigned() || id.get<uint64_t>() > std::numeric_limits<int32_t>::max())
      return fields.wrong("eos_token_id", "a token id or a list of them");
    ids.push_back(id.get<int32_t>());
  }
  const bool none = ids.empty() && !(eos->is_array() && eos->empty());
  if (none) return std::optional<std::vector<int32_t>>();
  return std::optional(std::move(ids));
}

}  // namespace

Result<GenerationConfig> GenerationConfig::parse(std::string_view text, const std::string& source) {
  NMM_ASSIGN(const nlohmann::json json, parse_json_object(text, source));
  const JsonFields fields(json, source);
  GenerationConfig config;
  NMM_ASSIGN(config.do_sample, fields.boolean("do_sample"));
  NMM_ASSIGN(config.temperature, number_between(fields, "temperature", 0.0, 100.0));
  NMM_ASSIGN(config.top_k, count_from(fields, "top_k", -1));
  if (config.top_k) config.top_k = std::max<int64_t>(*config.top_k, 0);
  NMM_ASSIGN(config.top_p, number_between(fields, "top_p", 0.0, 1.0));
  NMM_ASSIGN(config.min_p, number_between(fields, "min_p", 0.0, 1.0));
  NMM_ASSIGN(config.repetition_penalty, number_between(fields, "repetition_penalty", 0.01, 100.0));
  NMM_ASSIGN(config.max_new_tokens, count_from(fields, "max_new_tokens", 1));
  NMM_ASSIGN(config.eos_token_ids, ids_that_end(fields));
  return config;
}

Result<GenerationConfig> GenerationConfig::load(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kGenerationConfigName;
  NMM_ASSIGN(const bool found, is_there(path));
  if (!found) return GenerationConfig();
  NMM_ASSIGN(const std::string text, read_text_file(path, kMaxConfigBytes));
  auto config = parse(strict_json(text), path.string());
  if (!config.ok()) return explain_parse_error(config.error(), text, path.string());
  return config;
}

void GenerationConfig::override_with(const GenerationConfig& given) {
  const auto take = [](auto& setting, const auto& from) {
    if (from) setting = from;
  };
  take(do_sample, given.do_sample);
  if (given.temperature) do_sample = *given.temperature > 0.0;
  take(temperature, given.temperature);
  take(top_k, given.top_k);
  take(top_p, given.top_p);
  take(min_p, given.min_p);
  take(repetition_penalty, given.repetition_penalty);
  take(max_new_tokens, given.max_new_tokens);
  take(eos_token_ids, given.eos_token_ids);
}

bool GenerationConfig::recommends_sampling() const {
  return do_sample || temperature || top_k || top_p || min_p;
}

GenerationConfig GenerationConfig::for_conversation() const {
  GenerationConfig settings = *this;
  if (recommends_sampling()) return settings;
  settings.do_sample = true;
  settings.temperature = kConversationTemperature;
  settings.top_p = kConversationTopP;
  return settings;
}

}  // namespace neuronmm::io
