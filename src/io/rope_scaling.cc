#include "io/rope_scaling.h"

#include <algorithm>
#include <array>
#include <string>

#include <nlohmann/json.hpp>

namespace neuronmm::io {
namespace {

using nlohmann::json;

constexpr double kLeastFactor = 1e-6, kLargestFactor = 1e9;
// The least theta is 1, so that frequencies lie in (0, 1].
constexpr double kLargestTheta = 1e30;
// The value is model_config's limit of positions.
constexpr double kLongestSequence = 1 << 24;

// The names are in the order of RopeScaling's alternatives.
constexpr std::array<std::string_view, 6> kRopeTypes = {"default", "linear", "dynamic",
                                                        "llama3",  "yarn",   "longrope"};

// The fields of "rope_scaling" and of the config around it.
struct RopeFields {
  const JsonFields& scaling;
  const JsonFields& config;
  int64_t head_dim;
};

Result<std::optional<double>> read_optional(const JsonFields& fields, const std::string& key) {
  if (fields.find(key) == nullptr) return std::optional<double>();
  NMM_ASSIGN(const double number, fields.number_in(key, kLeastFactor, kLargestFactor));
  return std::optional(number);
}

// As in transformers, a value in the config itself (Phi-3 has it there) takes precedence over one
// in "rope_scaling".
Result<double> read_original_context(const RopeFields& fields, double otherwise) {
  const std::string key = "original_max_position_embeddings";
  const bool in_config = fields.config.find(key) != nullptr;
  return (in_config ? fields.config : fields.scaling)
      .number_in(key, 1.0, kLargestFactor, otherwise);
}

Status read_scaling(const RopeFields& fields, LinearRopeScaling& linear, RopeConfig&) {
  NMM_ASSIGN(linear.factor, fields.scaling.number_in("factor", kLeastFactor, kLargestFactor));
  return {};
}

Status read_scaling(const RopeFields& fields, DynamicRopeScaling& dynamic, RopeConfig&) {
  NMM_ASSIGN(dynamic.factor, fields.scaling.number_in("factor", 1.0, kLargestFactor));
  return {};
}

Status read_scaling(const RopeFields& fields, Llama3RopeScaling& llama3, RopeConfig& config) {
  const JsonFields& rope = fields.scaling;
  NMM_ASSIGN(llama3.factor, rope.number_in("factor", 1.0, kLargestFactor));
  NMM_ASSIGN(llama3.low_freq_factor,
             rope.number_in("low_freq_factor", kLeastFactor, kLargestFactor));
  NMM_ASSIGN(llama3.high_freq_factor,
             rope.number_in("high_freq_factor", kLeastFactor, kLargestFactor));
  const auto positions = static_cast<double>(config.max_position_embeddings);
  NMM_ASSIGN(llama3.original_max_position_embeddings, read_original_context(fields, positions));
  if (llama3.low_freq_factor >= llama3.high_freq_factor)
    return fail("{}: expected low_freq_factor < high_freq_factor, found {} and {}", rope.source(),
                llama3.low_freq_factor, llama3.high_freq_factor);
  return {};
}

Status read_scaling(const RopeFields& fields, YarnRopeScaling& yarn, RopeConfig& config) {
  const JsonFields& rope = fields.scaling;
  if (config.theta <= 1.0)  // The equations divide by the logarithm of theta.
    return fail("{}: \"rope_theta\": expected more than 1 with yarn, found {}", rope.source(),
                config.theta);
  NMM_ASSIGN(yarn.factor, rope.number_in("factor", 1.0, kLargestFactor));
  const auto positions = static_cast<double>(config.max_position_embeddings);
  NMM_ASSIGN(yarn.original_max_position_embeddings, read_original_context(fields, positions));
  NMM_ASSIGN(yarn.beta_fast,
             rope.number_in("beta_fast", kLeastFactor, kLargestFactor, yarn.beta_fast));
  NMM_ASSIGN(yarn.beta_slow,
             rope.number_in("beta_slow", kLeastFactor, kLargestFactor, yarn.beta_slow));
  if (yarn.beta_fast < yarn.beta_slow)
    return fail("{}: expected beta_slow <= beta_fast, found {} and {}", rope.source(),
                yarn.beta_slow, yarn.beta_fast);
  NMM_ASSIGN(const auto truncate, rope.boolean("truncate"));
  yarn.truncate = truncate.value_or(true);
  NMM_ASSIGN(yarn.attention_factor, read_optional(rope, "attention_factor"));
  NMM_ASSIGN(yarn.mscale, rope.number_in("mscale", 0.0, kLargestFactor, 0.0));
  NMM_ASSIGN(yarn.mscale_all_dim, rope.number_in("mscale_all_dim", 0.0, kLargestFactor, 0.0));
  const double stretched = yarn.factor * yarn.original_max_position_embeddings;
  config.max_position_embeddings =
      static_cast<int64_t>(std::max(positions, std::min(stretched, kLongestSequence)));
  return {};
}

Result<std::vector<double>> read_factors(const RopeFields& fields, const std::string& key) {
  const int64_t pairs = fields.head_dim / 2;
  const json* list = fields.scaling.find(key);
  if (list == nullptr) return fields.scaling.missing(key);
  if (!list->is_array() || static_cast<int64_t>(list->size()) != pairs)
    return fields.scaling.wrong(key, fmt::format("a list of {} numbers (head_dim / 2)", pairs));
  for (const json& factor : *list) {
    if (!factor.is_number() ||
        !(factor.get<double>() >= kLeastFactor && factor.get<double>() <= kLargestFactor))
      return fail("{}: {:?}: expected numbers from {} to {}, found {}", fields.scaling.source(),
                  key, kLeastFactor, kLargestFactor, describe_json(factor));
  }
  return list->get<std::vector<double>>();
}

Status read_scaling(const RopeFields& fields, LongRopeScaling& longrope, RopeConfig& config) {
  const JsonFields& rope = fields.scaling;
  const auto positions = static_cast<double>(config.max_position_embeddings);
  NMM_ASSIGN(longrope.short_factor, read_factors(fields, "short_factor"));
  NMM_ASSIGN(const std::vector<double> long_factor, read_factors(fields, "long_factor"));
  NMM_ASSIGN(longrope.original_max_position_embeddings, read_original_context(fields, positions));
  const double original = longrope.original_max_position_embeddings;
  if (original < 2.0)  // The equations divide by its logarithm.
    return fail("{}: \"original_max_position_embeddings\": expected at least 2, found {}",
                rope.source(), original);
  NMM_ASSIGN(longrope.factor, rope.number_in("factor", 0.0, kLargestFactor, positions / original));
  NMM_ASSIGN(longrope.attention_factor, read_optional(rope, "attention_factor"));
  if (long_factor == longrope.short_factor) return {};
  longrope.long_factor = long_factor;
  config.max_position_embeddings = static_cast<int64_t>(std::min(positions, original));
  return {};
}

template <typename Scaling>
Status read_scaling_into(const RopeFields& fields, RopeConfig& config) {
  Scaling scaling;
  NMM_TRY(read_scaling(fields, scaling, config));
  config.scaling = std::move(scaling);
  return {};
}

// Returns whether the config has the field, and it is no empty object or list.
bool has_content(const JsonFields& fields, const std::string& key) {
  const json* value = fields.find(key);
  return value != nullptr && !value->empty();
}

// Refuses what the four supported architectures do not have and what would be computed differently.
Status refuse_unsupported_rope(const JsonFields& rope, const json& object) {
  NMM_ASSIGN(const auto rotary_factor, rope.number("partial_rotary_factor"));
  if (rotary_factor.value_or(1.0) != 1.0) return rope.wrong("partial_rotary_factor", "1");
  for (const auto& [key, value] : object.items()) {
    if (value.is_object())
      return rope.wrong(key, "a number, text or list (one RoPE for all layers)");
  }
  return {};
}

Status read_scaling_of_type(const std::string& type, const std::string& type_key,
                            const RopeFields& fields, RopeConfig& config) {
  if (type == "default") return {};
  if (type == "linear") return read_scaling_into<LinearRopeScaling>(fields, config);
  if (type == "dynamic") return read_scaling_into<DynamicRopeScaling>(fields, config);
  if (type == "llama3") return read_scaling_into<Llama3RopeScaling>(fields, config);
  if (type == "yarn") return read_scaling_into<YarnRopeScaling>(fields, config);
  if (type == "longrope") return read_scaling_into<LongRopeScaling>(fields, config);
  return fields.scaling.wrong(type_key, fmt::format("one of {}", fmt::join(kRopeTypes, ", ")));
}

}  // namespace

std::string_view rope_type(const RopeScaling& scaling) { return kRopeTypes[scaling.index()]; }

Result<RopeConfig> read_rope(const JsonFields& fields, int64_t head_dim,
                             int64_t max_position_embeddings) {
  RopeConfig config;
  config.max_position_embeddings = max_position_embeddings;
  NMM_ASSIGN(config.theta, fields.number_in("rope_theta", 1.0, kLargestTheta, config.theta));
  // As in transformers, "rope_scaling" takes precedence unless it is empty.
  const std::string key = has_content(fields, "rope_scaling") ? "rope_scaling" : "rope_parameters";
  if (!has_content(fields, key)) return config;
  const json* value = fields.find(key);
  if (!value->is_object()) return fields.wrong(key, "an object");
  const JsonFields rope(*value, fmt::format("{}: \"{}\"", fields.source(), key));
  NMM_TRY(refuse_unsupported_rope(rope, *value));
  NMM_ASSIGN(config.theta, rope.number_in("rope_theta", 1.0, kLargestTheta, config.theta));
  // Older configs call the field "type".
  const std::string type_key = rope.find("rope_type") != nullptr ? "rope_type" : "type";
  NMM_ASSIGN(const auto type, rope.string(type_key));
  // Without a type there is no scaling, and then nothing may ask for one.
  if (!type && rope.find("factor") != nullptr) return rope.missing("rope_type");
  NMM_TRY(
      read_scaling_of_type(type.value_or("default"), type_key, {rope, fields, head_dim}, config));
  return config;
}

}  // namespace neuronmm::io
