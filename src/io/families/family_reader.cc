#include "io/families/family_reader.h"

#include <algorithm>
#include <cmath>

namespace neuronmm::io {
namespace {

using nlohmann::json;

// The largest window and the largest multiplier, both far above every published one. Assumed.
constexpr int64_t kLargestWindow = int64_t{1} << 24;
constexpr double kLargestNumber = 1e9;
// Far above every published mixture, and small enough that products cannot overflow. Assumed.
constexpr int64_t kMostExperts = int64_t{1} << 14, kWidest = int64_t{1} << 22;

}  // namespace

Result<bool> FamilyReader::flag(const std::string& key, bool otherwise) const {
  NMM_ASSIGN(const auto given, fields.boolean(key));
  return given.value_or(otherwise);
}

Result<double> FamilyReader::number(const std::string& key, double otherwise) const {
  return fields.number_in(key, -kLargestNumber, kLargestNumber, otherwise);
}

Result<int64_t> FamilyReader::count(const std::string& key, int64_t otherwise) const {
  NMM_ASSIGN(const auto given, fields.whole_number(key));
  const int64_t value = given.value_or(otherwise);
  if (value < 0 || value > kLargestWindow)
    return fields.wrong(key, fmt::format("an integer from 0 to {}", kLargestWindow));
  return value;
}

Result<double> FamilyReader::multiplier(const std::string& key, double otherwise) const {
  NMM_ASSIGN(const double value, number(key, otherwise));
  if (value == 0.0) return fields.wrong(key, "a number other than 0");
  return value;
}

Result<double> FamilyReader::cap(const std::string& key) const {
  return fields.number_in(key, 0.0, kLargestNumber, 0.0);
}

Status FamilyReader::attention_biases() {
  NMM_ASSIGN(config.attention_bias, flag("attention_bias"));
  config.attention_output_bias = config.attention_bias;
  return {};
}

Result<int64_t> FamilyReader::window() const {
  const std::string key = "sliding_window";
  if (fields.find(key) == nullptr) return 0;
  NMM_ASSIGN(const int64_t window, count(key, 0));
  if (window == 0) return fields.wrong(key, fmt::format("an integer from 1 to {}", kLargestWindow));
  return window;
}

Result<std::vector<bool>> FamilyReader::sliding_layers(const OfLayer& otherwise) const {
  const auto layers = static_cast<size_t>(config.num_hidden_layers);
  std::vector<bool> sliding(layers);
  const json* types = fields.find("layer_types");
  if (types == nullptr) {
    for (size_t i = 0; i < layers; ++i) sliding[i] = otherwise(static_cast<int64_t>(i));
    return sliding;
  }
  if (!types->is_array() || types->size() != layers)
    return fields.wrong("layer_types", fmt::format("a list of {}", layers));
  for (size_t i = 0; i < layers; ++i) {
    const json& type = types->at(i);
    if (type != "full_attention" && type != "sliding_attention")
      return fail("{}: \"layer_types\": expected full_attention or sliding_attention, found {}",
                  fields.source(), describe_json(type));
    sliding[i] = type == "sliding_attention";
  }
  return sliding;
}

void FamilyReader::set_windows(const std::vector<bool>& sliding, int64_t window) {
  for (size_t i = 0; i < sliding.size(); ++i) {
    if (sliding[i]) config.layers[i].window = window;
  }
}

Status FamilyReader::qwen_windows() {
  NMM_ASSIGN(const bool used, flag("use_sliding_window"));
  if (!used) return {};
  NMM_ASSIGN(const int64_t length, window());
  NMM_ASSIGN(const auto full, fields.integer("max_window_layers"));
  NMM_ASSIGN(const auto sliding, sliding_layers([&](int64_t i) { return i >= full.value_or(0); }));
  // Shorter contexts do not reach the default.
  if (!was_given("sliding_window") && length >= config.max_position_embeddings) return {};
  set_windows(sliding, length);
  return {};
}

Status FamilyReader::gemma_switches() {
  NMM_ASSIGN(const bool both_ways, flag("use_bidirectional_attention"));
  if (both_ways)
    return fields.wrong("use_bidirectional_attention", "false (an embedding model is no decoder)");
  NMM_TRY(attention_biases());
  config.output_norms = true;
  config.gain_offset = 1.0;
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  constexpr double kDefaultScalar = 256.0;  // that of both classes
  NMM_ASSIGN(const double scalar,
             fields.number_in("query_pre_attn_scalar", 1e-9, kLargestNumber, kDefaultScalar));
  config.score_scale = 1.0 / std::sqrt(scalar);
  return {};
}

Status FamilyReader::granite_switches() {
  NMM_TRY(attention_biases());
  NMM_ASSIGN(config.embedding_scale, number("embedding_multiplier", 1.0));
  NMM_ASSIGN(config.score_scale, multiplier("attention_multiplier", 1.0));
  NMM_ASSIGN(config.residual_scale, number("residual_multiplier", 1.0));
  NMM_ASSIGN(config.logit_divisor, multiplier("logits_scaling", 1.0));
  return {};
}

Status FamilyReader::experts(int64_t otherwise_count, int64_t otherwise_active,
                             const std::string& width_key) {
  const std::string keys[] = {"num_experts", "num_local_experts"},
                    active_key = "num_experts_per_tok";
  Experts read;
  const auto number_of = [&](const std::string& key, int64_t most,
                             int64_t otherwise) -> Result<int64_t> {
    NMM_ASSIGN(const int64_t value, count(key, otherwise));
    if (value < 1 || value > most) {
      return fields.wrong(key, fmt::format("an integer from 1 to {}", most));
    }
    return value;
  };
  const std::string& key = fields.find(keys[0]) != nullptr ? keys[0] : keys[1];
  NMM_ASSIGN(read.count, number_of(key, kMostExperts, otherwise_count));
  if (fields.find(keys[1]) != nullptr) {
    NMM_ASSIGN(const int64_t other, number_of(keys[1], kMostExperts, read.count));
    if (other != read.count) {
      return fail("{}: \"{}\" is {}, but \"{}\" is {}; expected one number of experts",
                  fields.source(), keys[0], read.count, keys[1], other);
    }
  }
  NMM_ASSIGN(read.active, number_of(active_key, kMostExperts, otherwise_active));
  if (read.active > read.count) {
    return fail(
        "{}: \"{}\" is {}, but \"{}\" is {}; a token cannot choose more experts than there are",
        fields.source(), active_key, read.active, key, read.count);
  }
  NMM_ASSIGN(read.width, number_of(width_key, kWidest, config.intermediate_size));
  config.experts = std::move(read);
  return {};
}

Status FamilyReader::one_rope(const RopeRules& rules) {
  NMM_ASSIGN(RopeTable table, rope(rules));
  config.ropes = {std::move(table)};
  return {};
}

Status FamilyReader::two_ropes(const std::vector<bool>& sliding, const RopeRules& full,
                               const RopeRules& local) {
  NMM_ASSIGN(RopeTable table_of_full, rope(full));
  NMM_ASSIGN(RopeTable table_of_local, rope(local));
  config.ropes = {std::move(table_of_full), std::move(table_of_local)};
  for (size_t i = 0; i < sliding.size(); ++i) config.layers[i].rope = sliding[i] ? 1 : 0;
  return {};
}

void FamilyReader::drop_rope(const OfLayer& has_rope) {
  bool any = false;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    if (!has_rope(static_cast<int64_t>(i))) config.layers[i].rope = kNoRope;
    any |= config.layers[i].rope != kNoRope;
  }
  if (!any) config.ropes.clear();
}

const json* FamilyReader::rope_object() const {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json* value = fields.find(key);
    if (value != nullptr && value->is_object() && !value->empty()) return value;
  }
  return nullptr;
}

Result<RopeTable> FamilyReader::rope(const RopeRules& rules) {
  NMM_ASSIGN(RopeConfig read,
             read_rope(fields, {rules, config.head_dim, config.max_position_embeddings}));
  config.max_position_embeddings = read.max_position_embeddings;
  return std::move(read.table);
}

Result<json> language_config(const json& document, const std::string& source, bool tied) {
  json text = document;
  if (document.contains("text_config") && !document.at("text_config").is_null()) {
    if (!document.at("text_config").is_object())
      return JsonFields(document, source).wrong("text_config", "an object");
    text = document.at("text_config");
    // A key of the root that the language model shares.
    for (const char* key :
         {"bos_token_id", "eos_token_id", "pad_token_id", "torch_dtype", "dtype",
          "quantization_config", "neuronmm_quantization", "neuronmm_compression"}) {
      if (document.contains(key) && !document.at(key).is_null() &&
          (!text.contains(key) || text.at(key).is_null()))
        text[key] = document.at(key);
    }
  }
  const auto tie_of = [](const json& object) {
    return object.value("tie_word_embeddings", json()) == true;
  };
  if (document.contains("tie_word_embeddings")) {
    text["tie_word_embeddings"] = tie_of(document) || (!tied && tie_of(text));
  } else if (tied) {
    text["tie_word_embeddings"] = true;
    text[kTieByWeights] = true;
  }
  text.erase("auto_map");
  text.erase("text_config");
  text.erase("vision_config");
  return text;
}

Status plain_rope(json& document, const std::string& source) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!document.contains(key) || !document.at(key).is_object()) continue;
    json& rope = document.at(key);
    for (const char* type_key : {"rope_type", "type"}) {
      if (!rope.contains(type_key)) continue;
      if (!rope.at(type_key).is_string())
        return JsonFields(rope, fmt::format("{}: \"{}\"", source, key)).wrong(type_key, "a string");
      if (rope.at(type_key) == "mrope") rope[type_key] = "default";
    }
    rope.erase("mrope_section");
    rope.erase("mrope_interleaved");
  }
  return {};
}

nlohmann::ordered_json layer_types(const std::vector<int64_t>& sliding) {
  auto types = nlohmann::ordered_json::array();
  for (const int64_t local : sliding)
    types.push_back(local != 0 ? "sliding_attention" : "full_attention");
  return types;
}

void write_windows(const ModelConfig& config, bool pattern, GgufKeys& keys) {
  int64_t window = 0;
  std::vector<bool> sliding;
  for (const LayerAttention& layer : config.layers) {
    window = std::max(window, layer.window);
    sliding.push_back(layer.window > 0);
  }
  if (window == 0) return;
  keys.integer("attention.sliding_window", window);
  if (pattern) keys.booleans("attention.sliding_window_pattern", sliding);
}

void set_family(json& document, const char* class_name, const char* model_type) {
  document["architectures"] = {class_name};
  document["model_type"] = model_type;
}

}  // namespace neuronmm::io
