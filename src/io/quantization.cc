#include "io/quantization.h"

#include <nlohmann/json.hpp>

namespace neuronmm::io {
namespace {

using nlohmann::json;

constexpr const char* kQuantizationKey = "quantization_config";
constexpr const char* kMethod = "neuronmm";
constexpr int64_t kBits = 8;

// One format only: other bits or group sizes would need other kernels.
Status require_integer(const JsonFields& fields, const std::string& key, int64_t expected) {
  NMM_ASSIGN(const auto value, fields.integer(key));
  if (!value) return fields.missing(key);
  if (*value != expected) return fields.wrong(key, fmt::format("{}", expected));
  return {};
}

}  // namespace

// False without the entry. Another quant_method means int8 or int4 of another kind, which must not
// be taken for ours.
Result<bool> read_quantization(const JsonFields& config_fields) {
  const json* value = config_fields.find(kQuantizationKey);
  if (value == nullptr) return false;
  if (!value->is_object()) return config_fields.wrong(kQuantizationKey, "an object");
  const JsonFields fields(*value,
                          fmt::format("{}: \"{}\"", config_fields.source(), kQuantizationKey));
  NMM_ASSIGN(const auto method, fields.string("quant_method"));
  if (!method) return fields.missing("quant_method");
  if (*method != kMethod) {
    return fields.wrong("quant_method",
                        "\"neuronmm\" (int8 weights that `neuronmm quantize` writes)");
  }
  NMM_TRY(require_integer(fields, "bits", kBits));
  NMM_TRY(require_integer(fields, "group_size", kInt8GroupSize));
  return true;
}

// Everything else in the config stays as it is.
Result<std::string> with_quantization(std::string_view original_text, const std::string& source) {
  using nlohmann::ordered_json;
  const Result<json> checked = parse_json_object(original_text, source);
  if (!checked.ok()) return checked.error();
  ordered_json document = ordered_json::parse(original_text);  // keeps the order of the keys
  document[kQuantizationKey] = {
      {"quant_method", kMethod}, {"bits", kBits}, {"group_size", kInt8GroupSize}};
  constexpr int kIndent = 2;  // as transformers writes it
  return document.dump(kIndent) + "\n";
}

}  // namespace neuronmm::io
