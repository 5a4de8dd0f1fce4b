#include "io/quantization.h"

#include <nlohmann/json.hpp>

#include "io/foreign_quantization.h"
#include "io/json_file.h"
#include "io/ordered_json.h"
#include "io/record_version.h"

namespace neuronmm::io {
namespace {

using nlohmann::json;

constexpr const char* kQuantizationKey = "neuronmm_quantization";
// The key of older folders, which has a quant_method.
constexpr const char* kOlderKey = "quantization_config";
constexpr const char* kExceptionsKey = "exceptions";
constexpr const char* kLearntKey = "reconstruction_tokens";
constexpr std::string_view kLayersPart = "layers.";

// Returns the object under `key`, or nullopt if it is missing.
Result<std::optional<JsonFields>> find_object(const JsonFields& fields, const std::string& key) {
  const json* value = fields.find(key);
  if (value == nullptr) return std::optional<JsonFields>();
  if (!value->is_object()) return fields.wrong(key, "an object");
  return std::optional(JsonFields(*value, fmt::format("{}: \"{}\"", fields.source(), key)));
}

// Reads a format. Other bits or group sizes would need other kernels. `floats` allows kFloatFormat.
Result<LowBitFormat> read_format(const JsonFields& fields, bool floats) {
  LowBitFormat format;
  NMM_ASSIGN(const auto bits, fields.integer("bits"));
  if (!bits) return fields.missing("bits");
  if (floats && *bits == kFloatFormat.bits) return kFloatFormat;
  if (*bits != 8 && *bits != 6 && *bits != 4) {
    return fields.wrong("bits", floats ? "16, 8, 6 or 4" : "8, 6 or 4");
  }
  format.bits = static_cast<int>(*bits);
  NMM_ASSIGN(const auto group, fields.integer("group_size"));
  if (!group) return fields.missing("group_size");
  format.group = *group;
  if (format.bits == 4 && format.group != 16 && format.group != 32) {
    return fields.wrong("group_size", "16 or 32");
  }
  if (format.bits != 4 && format.group != kScaleGroupSize) {
    return fields.wrong("group_size", fmt::format("{}", kScaleGroupSize));
  }
  return format;
}

Result<Quantization> read_formats(const JsonFields& fields) {
  NMM_TRY(check_record_version(fields));
  Quantization quantization;
  NMM_ASSIGN(quantization.format, read_format(fields, false));
  NMM_ASSIGN(quantization.calibration, read_calibration(fields));
  NMM_ASSIGN(const auto learnt, fields.integer(kLearntKey));
  quantization.reconstruction_tokens = learnt.value_or(0);
  NMM_ASSIGN(const auto exceptions, find_object(fields, kExceptionsKey));
  if (!exceptions) return quantization;
  for (const auto& [module, entry] : fields.find(kExceptionsKey)->items()) {
    if (!entry.is_object()) return exceptions->wrong(module, "an object");
    const JsonFields of_module(entry, fmt::format("{}: {:?}", exceptions->source(), module));
    NMM_ASSIGN(quantization.exceptions[module], read_format(of_module, true));
  }
  return quantization;
}

nlohmann::ordered_json format_json(const LowBitFormat& format) {
  if (format == kFloatFormat) return {{"bits", format.bits}};
  return {{"bits", format.bits}, {"group_size", format.group}};
}

// Refuses the weights of mlx-lm, whose config has their bits under a key of its own.
Status refuse_mlx(const JsonFields& config_fields) {
  NMM_ASSIGN(const auto entry, find_object(config_fields, "quantization"));
  if (!entry) return {};
  const json* bits = entry->find("bits");
  if (bits == nullptr) return {};
  return fail(
      "{}: weights of MLX in {} bits, which are not read here; use the original model, or make "
      "floats of them: mlx_lm.convert --hf-path DIR --mlx-path NEW --dequantize",
      entry->source(), describe_json(*bits));
}

// Returns the part of the name from "layers." on, or the whole name if it has no such part.
std::string_view module_path(std::string_view module) {
  const size_t layers = module.find(kLayersPart);
  return layers == std::string_view::npos ? module : module.substr(layers);
}

// Returns true for names such as "layers.3.mlp.down_proj".
bool names_single_layer(std::string_view module) { return module.starts_with(kLayersPart); }

}  // namespace

const LowBitFormat& Quantization::format_of(std::string_view tensor) const {
  const std::string_view module = tensor.substr(0, tensor.rfind('.'));
  const size_t dot = module.rfind('.');
  auto found = exceptions.find(module_path(module));
  if (found == exceptions.end() && dot != std::string_view::npos) {
    found = exceptions.find(module.substr(dot + 1));
  }
  return found == exceptions.end() ? format : found->second;
}

std::optional<LowBitFormat> Quantization::rounding_of(std::string_view tensor) const {
  const LowBitFormat& of_tensor = format_of(tensor);
  return of_tensor == kFloatFormat ? std::nullopt : std::optional(of_tensor);
}

std::string format_text(const LowBitFormat& format) {
  if (format == kFloatFormat) return "16 bits";
  if (format.bits == 8) return "int8";
  if (format.bits == 6) return "6 bits";
  return fmt::format("4 bits in groups of {}", format.group);
}

std::string quantization_text(const Quantization& quantization) {
  std::string text = format_text(quantization.format);
  int64_t single_layers = 0;
  for (const auto& [module, format] : quantization.exceptions) {
    if (names_single_layer(module)) {
      ++single_layers;
    } else {
      text += fmt::format(", {} {}", module, format_text(format));
    }
  }
  if (single_layers > 0)
    text += fmt::format(", {} matrices with formats of their own", single_layers);
  return text;
}

Result<std::optional<Quantization>> read_quantization(const JsonFields& config_fields) {
  std::optional<Quantization> found;
  NMM_TRY(refuse_mlx(config_fields));
  NMM_ASSIGN(const auto older, find_object(config_fields, kOlderKey));
  NMM_ASSIGN(const auto current, find_object(config_fields, kQuantizationKey));
  const bool own = older && is_own_entry(*older);
  if (older && current && !own) {
    return fail(
        "{}: expected \"{}\" or \"{}\", found both; remove the one that does not belong to the "
        "weights",
        config_fields.source(), kQuantizationKey, kOlderKey);
  }
  if (own) {
    NMM_ASSIGN(found, read_formats(*older));
  }
  // Checkpoint decodes weights of another program, which are floats to everything else.
  if (older && !own) NMM_TRY(parse_foreign_quantization(*older));
  if (current) {
    NMM_ASSIGN(found, read_formats(*current));
  }
  return found;
}

// The rest of the config stays as it is.
Result<std::string> with_quantization(std::string_view original_text, const std::string& source,
                                      const Quantization& quantization) {
  using nlohmann::ordered_json;
  const Result<json> checked = parse_json_object(original_text, source);
  if (!checked.ok()) return checked.error();
  // The ordered object keeps the order of the keys.
  ordered_json document = parse_ordered_json(original_text);
  document.erase(kOlderKey);
  ordered_json entry = {{kRecordVersionKey, kRecordVersion}};
  entry.update(format_json(quantization.format));
  for (const auto& [module, format] : quantization.exceptions) {
    entry[kExceptionsKey][module] = format_json(format);
  }
  if (!quantization.calibration.empty()) {
    entry["calibration"] = calibration_json(quantization.calibration);
  }
  if (quantization.reconstruction_tokens > 0) {
    entry[kLearntKey] = quantization.reconstruction_tokens;
  }
  document[kQuantizationKey] = std::move(entry);
  // The name of a calibration text may be bytes that no JSON can hold.
  return document.dump(kConfigIndent, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Result<std::string> without_quantization(std::string_view original_text,
                                         const std::string& source) {
  using nlohmann::ordered_json;
  const Result<json> checked = parse_json_object(original_text, source);
  if (!checked.ok()) return checked.error();
  ordered_json document = parse_ordered_json(original_text);
  document.erase(kOlderKey);
  document.erase(kQuantizationKey);
  document[document.contains("dtype") ? "dtype" : "torch_dtype"] = "float32";
  return document.dump(kConfigIndent) + "\n";
}

}  // namespace neuronmm::io
