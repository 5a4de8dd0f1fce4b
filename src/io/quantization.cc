#include "io/quantization.h"

#include <nlohmann/json.hpp>

namespace neuronmm::io {
namespace {

using nlohmann::json;

constexpr const char* kQuantizationKey = "neuronmm_quantization";
constexpr const char* kOlderKey = "quantization_config";  // with a quant_method
constexpr const char* kMethod = "neuronmm";
constexpr int64_t kBits = 8;

// One format only: other bits or group sizes would need other kernels.
Status require_integer(const JsonFields& fields, const std::string& key, int64_t expected) {
  NMM_ASSIGN(const auto value, fields.integer(key));
  if (!value) return fields.missing(key);
  if (*value != expected) return fields.wrong(key, fmt::format("{}", expected));
  return {};
}

// The object under `key`; nullopt: absent.
Result<std::optional<JsonFields>> find_object(const JsonFields& fields, const std::string& key) {
  const json* value = fields.find(key);
  if (value == nullptr) return std::optional<JsonFields>();
  if (!value->is_object()) return fields.wrong(key, "an object");
  return std::optional(JsonFields(*value, fmt::format("{}: \"{}\"", fields.source(), key)));
}

Status check_format(const JsonFields& fields) {
  NMM_TRY(require_integer(fields, "bits", kBits));
  return require_integer(fields, "group_size", kInt8GroupSize);
}

// Another quant_method means int8 or int4 of another kind, which must not be taken for ours.
Status check_method(const JsonFields& fields) {
  NMM_ASSIGN(const auto method, fields.string("quant_method"));
  if (!method) return fields.missing("quant_method");
  if (*method == kMethod) return {};
  return fields.wrong("quant_method",
                      "\"neuronmm\" (int8 weights that `neuronmm quantize` writes)");
}

}  // namespace

Result<bool> read_quantization(const JsonFields& config_fields) {
  NMM_ASSIGN(const auto older, find_object(config_fields, kOlderKey));
  if (older) {
    NMM_TRY(check_method(*older));
    NMM_TRY(check_format(*older));
  }
  NMM_ASSIGN(const auto current, find_object(config_fields, kQuantizationKey));
  if (current) NMM_TRY(check_format(*current));
  return older || current;
}

// Everything else in the config stays as it is.
Result<std::string> with_quantization(std::string_view original_text, const std::string& source) {
  using nlohmann::ordered_json;
  const Result<json> checked = parse_json_object(original_text, source);
  if (!checked.ok()) return checked.error();
  ordered_json document = ordered_json::parse(original_text);  // keeps the order of the keys
  document.erase(kOlderKey);
  document[kQuantizationKey] = {{"bits", kBits}, {"group_size", kInt8GroupSize}};
  constexpr int kIndent = 2;  // as transformers writes it
  return document.dump(kIndent) + "\n";
}

}  // namespace neuronmm::io
