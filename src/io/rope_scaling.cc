#include "io/rope_scaling.h"

#include <algorithm>
#include <array>
#include <cmath>
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
  const RopePlace& place;
  // The elements of a head that turn.
  int64_t rotary_width;
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
  if (fields.scaling.find("alpha") != nullptr)
    return fields.scaling.wrong("alpha", "none (this family has no such scaling)");
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
  if (config.table.theta <= 1.0)  // The equations divide by the logarithm of theta.
    return fail("{}: \"rope_theta\": expected more than 1 with yarn, found {}", rope.source(),
                config.table.theta);
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
  const int64_t pairs = fields.rotary_width / 2;
  const json* list = fields.scaling.find(key);
  if (list == nullptr) return fields.scaling.missing(key);
  if (!list->is_array() || static_cast<int64_t>(list->size()) != pairs)
    return fields.scaling.wrong(
        key, fmt::format("a list of {} numbers, one for each pair of elements that turn", pairs));
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
  NMM_ASSIGN(longrope.long_factor, read_factors(fields, "long_factor"));
  NMM_ASSIGN(longrope.original_max_position_embeddings, read_original_context(fields, positions));
  const double original = longrope.original_max_position_embeddings;
  if (original < 2.0)  // The equations divide by its logarithm.
    return fail("{}: \"original_max_position_embeddings\": expected at least 2, found {}",
                rope.source(), original);
  NMM_ASSIGN(longrope.factor, rope.number_in("factor", 0.0, kLargestFactor, positions / original));
  NMM_ASSIGN(longrope.attention_factor, read_optional(rope, "attention_factor"));
  if (longrope.long_factor == longrope.short_factor) longrope.long_factor.clear();
  return {};
}

template <typename Scaling>
Status read_scaling_into(const RopeFields& fields, RopeConfig& config) {
  Scaling scaling;
  NMM_TRY(read_scaling(fields, scaling, config));
  config.table.scaling = std::move(scaling);
  return {};
}

// Returns whether the config has the field, and it is no empty object or list.
bool has_content(const JsonFields& fields, const std::string& key) {
  const json* value = fields.find(key);
  return value != nullptr && !value->empty();
}

// Multiplies the base by a power of "alpha", as Hunyuan's "dynamic" scaling does.
Status read_alpha(const RopeFields& fields, RopeConfig& config) {
  NMM_ASSIGN(const double alpha, fields.scaling.number_in("alpha", kLeastFactor, kLargestFactor));
  const auto head_dim = static_cast<double>(fields.place.head_dim);
  if (head_dim <= 2.0)
    return fail("{}: \"alpha\": expected a head_dim of more than 2, found {}",
                fields.scaling.source(), head_dim);
  config.table.theta *= std::pow(alpha, head_dim / (head_dim - 2.0));
  if (config.table.theta >= 1.0 && config.table.theta <= kLargestTheta) return {};
  return fields.scaling.wrong("alpha", "a number that leaves the base in its range");
}

// Refuses what changes the table in a way that is not known here. A value that switches something
// off is harmless.
Status refuse_unknown_rope(const JsonFields& rope, const json& object) {
  constexpr std::string_view kKnown[] = {
      "rope_theta", "rope_type", "type", "factor", "original_max_position_embeddings",
      "attention_factor", "beta_fast", "beta_slow", "short_factor", "long_factor",
      "low_freq_factor", "high_freq_factor", "mscale", "mscale_all_dim", "truncate",
      "partial_rotary_factor", "alpha",
      // Ministral 3's factor of queries, which its family reads.
      "llama_4_scaling_beta",
      // The sections of three axes, which are equal for a text.
      "mrope_section", "mrope_interleaved",
      // A copy of the key outside, which transformers does not read.
      "max_position_embeddings",
      // Says how the model was trained.
      "finetuned"};
  for (const auto& [key, value] : object.items()) {
    if (value.is_object())
      return rope.wrong(key, "a number, text or list (one RoPE for all layers)");
    const bool off = value.is_null() || value == false || (value.is_array() && value.empty());
    if (!off && std::ranges::find(kKnown, key) == std::end(kKnown))
      return fail(
          "{}: {:?} is {}: this key is not known here, and what it changes would be missing",
          rope.source(), key, describe_json(value));
  }
  return {};
}

// Returns the number of elements of a head that turn.
Result<int64_t> read_rotary_width(const JsonFields& config, const JsonFields& rope,
                                  const RopePlace& place) {
  const std::string key = "partial_rotary_factor";
  const JsonFields& fields = rope.find(key) != nullptr ? rope : config;
  NMM_ASSIGN(const auto given, fields.number(key));
  const double factor = given.value_or(1.0);
  if (factor == 1.0) return place.head_dim;
  if (!place.partial) return fields.wrong(key, "1");
  if (!(factor > 0.0 && factor < 1.0)) return fields.wrong(key, "a number from 0 to 1");
  const auto width = static_cast<int64_t>(static_cast<double>(place.head_dim) * factor);
  if (width < 2 || width % 2 != 0)
    return fail("{}: {:?}: expected a factor that leaves an even number of {} elements, found {}",
                fields.source(), key, place.head_dim, factor);
  return width;
}

Status read_scaling_of_type(const std::string& type, const std::string& type_key,
                            const RopeFields& fields, RopeConfig& config) {
  if (fields.place.old_longrope_names && (type == "su" || type == "yarn"))
    return read_scaling_into<LongRopeScaling>(fields, config);
  if (fields.place.alpha && type == "dynamic" && fields.scaling.find("alpha") != nullptr)
    return read_alpha(fields, config);
  if (type == "default") return {};
  if (type == "linear") return read_scaling_into<LinearRopeScaling>(fields, config);
  if (type == "dynamic") return read_scaling_into<DynamicRopeScaling>(fields, config);
  if (type == "llama3") return read_scaling_into<Llama3RopeScaling>(fields, config);
  if (type == "yarn") return read_scaling_into<YarnRopeScaling>(fields, config);
  if (type == "longrope") return read_scaling_into<LongRopeScaling>(fields, config);
  return fields.scaling.wrong(type_key, fmt::format("one of {}", fmt::join(kRopeTypes, ", ")));
}

// Reads one object that describes a table. `source` names it in messages.
Status read_table(const JsonFields& fields, const json& object, const std::string& source,
                  const RopePlace& place, RopeConfig& config) {
  const JsonFields rope(object, source);
  NMM_TRY(refuse_unknown_rope(rope, object));
  NMM_ASSIGN(config.table.theta,
             rope.number_in("rope_theta", 1.0, kLargestTheta, config.table.theta));
  NMM_ASSIGN(config.table.rotary_width, read_rotary_width(fields, rope, place));
  // Older configs call the field "type".
  const std::string type_key = rope.find("rope_type") != nullptr ? "rope_type" : "type";
  NMM_ASSIGN(const auto type, rope.string(type_key));
  // Without a type there is no scaling, and then nothing may ask for one.
  if (!type && rope.find("factor") != nullptr) return rope.missing("rope_type");
  return read_scaling_of_type(type.value_or("default"), type_key,
                              {rope, fields, place, config.table.rotary_width}, config);
}

// Returns the object of a table and its path in the file. The object is null if the file has none.
struct TableObject {
  const json* object = nullptr;
  std::string path;
};
Result<TableObject> find_table(const JsonFields& fields, const RopePlace& place) {
  // As in transformers, "rope_scaling" takes precedence unless it is empty.
  const bool old_key = place.scaling && has_content(fields, "rope_scaling");
  const std::string key = old_key ? "rope_scaling" : "rope_parameters";
  if (!has_content(fields, key)) return TableObject{};
  const json* value = fields.find(key);
  if (!value->is_object()) return fields.wrong(key, "an object");
  const std::string path = fmt::format("{}: \"{}\"", fields.source(), key);
  if (old_key || place.layer_type.empty()) return TableObject{value, path};
  const JsonFields nested(*value, path);
  for (const auto& [type, table] : value->items()) {
    if (type != "full_attention" && type != "sliding_attention")
      return nested.wrong(type, "only full_attention and sliding_attention, one table for each");
    if (!table.is_null() && !table.is_object()) return nested.wrong(type, "an object");
  }
  return TableObject{nested.find(place.layer_type),
                     fmt::format("{}: \"{}\"", path, place.layer_type)};
}

}  // namespace

std::string_view rope_type(const RopeScaling& scaling) { return kRopeTypes[scaling.index()]; }

Result<RopeConfig> read_rope(const JsonFields& fields, const RopePlace& place) {
  RopeConfig config;
  config.max_position_embeddings = place.max_position_embeddings;
  config.table.theta = place.default_theta;
  if (!place.theta_key.empty()) {
    NMM_ASSIGN(config.table.theta,
               fields.number_in(place.theta_key, 1.0, kLargestTheta, config.table.theta));
  }
  NMM_ASSIGN(const TableObject found, find_table(fields, place));
  const json empty = json::object();
  const bool given = found.object != nullptr;
  NMM_TRY(read_table(fields, given ? *found.object : empty, given ? found.path : fields.source(),
                     place, config));
  return config;
}

}  // namespace neuronmm::io
