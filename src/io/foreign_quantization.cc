#include "io/foreign_quantization.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "io/foreign_methods.h"
#include "io/text_file.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kRefusalAdvice =
    "use the original model with float weights, and round it with `neuronmm quantize`";

Error refused(const JsonFields& fields, const std::string& key, std::string_view expected) {
  return fail("{}; {}", fields.wrong(key, expected).message, kRefusalAdvice);
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

bool is_empty(const json* value) {
  return value == nullptr || *value == false || (value->is_string() && value->empty()) ||
         ((value->is_object() || value->is_array()) && value->empty());
}

// Refuses a setting that changes what the weights mean, if it is there.
Status refuse_if_set(const JsonFields& fields, const std::string& key, std::string_view meaning) {
  if (is_empty(fields.find(key))) return {};
  return refused(fields, key, fmt::format("no such setting, because {} is not read", meaning));
}

// The largest number of rows or columns of a block. Assumed: wider than any matrix.
constexpr int64_t kMaxBlock = int64_t{1} << 22;

Result<int64_t> read_group_size(const JsonFields& fields, const std::string& key) {
  NMM_ASSIGN(const auto given, fields.whole_number(key));
  if (!given) return 0;
  if (*given != -1 && (*given < 1 || *given > kMaxBlock)) {
    return refused(fields, key, "-1 (a whole row) or a number of columns");
  }
  return *given;
}

Result<int64_t> read_bits(const JsonFields& fields, const std::string& key, bool eight) {
  NMM_ASSIGN(const auto bits, fields.whole_number(key));
  if (!bits) return fields.missing(key);
  if (*bits != 4 && !(eight && *bits == 8)) return refused(fields, key, eight ? "4 or 8" : "4");
  return *bits;
}

// GPTQModel's "dynamic" gives some modules other bits and groups, or none. The tensors' shapes then
// say which.
Result<ForeignQuantization> read_gptq(const JsonFields& fields) {
  ForeignQuantization read = {.method = ForeignMethod::kGptq, .zeros_less_one = true};
  NMM_ASSIGN(read.bits, read_bits(fields, "bits", true));
  NMM_ASSIGN(read.group_size, read_group_size(fields, "group_size"));
  for (const char* const key : {"checkpoint_format", "format"}) {
    NMM_ASSIGN(auto format, fields.string(key));
    const std::string name = lower_case(format.value_or(""));
    if (name == "gptq_v2") read.zeros_less_one = false;
    if (!name.empty() && name != "gptq" && name != "gptq_v2") {
      return refused(fields, key, "\"gptq\" or \"gptq_v2\"");
    }
  }
  NMM_ASSIGN(const auto packed, fields.string("pack_dtype"));
  if (packed && *packed != "int32" && *packed != "torch.int32") {
    return refused(fields, "pack_dtype", "\"int32\"");
  }
  NMM_TRY(refuse_if_set(fields, "is_marlin_format", "Marlin's layout"));
  NMM_TRY(refuse_if_set(fields, "rotation", "a rotation of activations"));
  NMM_TRY(refuse_if_set(fields, "adapter", "an adapter beside the weights"));
  if (!is_empty(fields.find("dynamic"))) read.bits = read.group_size = 0;
  return read;
}

Result<ForeignQuantization> read_awq(const JsonFields& fields) {
  const bool older = fields.find("w_bit") != nullptr;
  ForeignQuantization read = {.method = ForeignMethod::kAwq};
  NMM_ASSIGN(read.bits, read_bits(fields, older ? "w_bit" : "bits", false));
  NMM_ASSIGN(read.group_size,
             read_group_size(fields, fields.find("q_group_size") ? "q_group_size" : "group_size"));
  for (const char* const key : {"version", "format"}) {
    NMM_ASSIGN(const auto version, fields.string(key));
    const std::string name = lower_case(version.value_or("gemm"));
    read.gemv = read.gemv || name == "gemv";
    if (name != "gemm" && name != "gemv") return refused(fields, key, "\"gemm\" or \"gemv\"");
  }
  if (read.gemv && read.group_size == 0) return fields.missing("group_size");
  return read;
}

// Reads block_structure or weight_block_size, which are lists of rows and columns. Older files of
// compressed-tensors have the text "128x128".
Status read_block(const JsonFields& fields, const std::string& key, ForeignQuantization& read) {
  const json* const block = fields.find(key);
  if (block == nullptr) return {};
  const auto is_size = [](const json& size) {
    return size.is_number_unsigned() && size > 0 && size <= kMaxBlock;
  };
  if (*block == "128x128") {
    read.block_rows = read.block_columns = 128;
    return {};
  }
  if (!block->is_array() || block->size() != 2 || !is_size((*block)[0]) || !is_size((*block)[1])) {
    return refused(fields, key, "a list of rows and columns");
  }
  read.block_rows = (*block)[0].get<int64_t>();
  read.block_columns = (*block)[1].get<int64_t>();
  return {};
}

Result<ForeignQuantization> read_float8(const JsonFields& fields) {
  ForeignQuantization read = {.method = ForeignMethod::kFloat8};
  NMM_ASSIGN(const auto format, fields.string("fmt"));
  if (format && *format != "e4m3") return refused(fields, "fmt", "\"e4m3\"");
  NMM_TRY(read_block(fields, "weight_block_size", read));
  read.rounds_activations = true;
  read.per_tensor = read.block_rows == 0;
  return read;
}

// Checks the weights of one of config_groups. Which modules it means does not matter: the shapes of
// the tensors say how many bits and groups they have.
Status read_scheme(const JsonFields& weights, ForeignQuantization& read, bool& symmetric) {
  NMM_ASSIGN(const auto bits, weights.whole_number("num_bits"));
  NMM_ASSIGN(const auto type, weights.string("type"));
  NMM_ASSIGN(const auto strategy, weights.string("strategy"));
  NMM_ASSIGN(const auto is_symmetric, weights.boolean("symmetric"));
  const bool floats = type == "float";
  if (type && *type != "int" && !floats) return refused(weights, "type", "\"int\" or \"float\"");
  if (bits.value_or(8) != 8 && (floats || *bits != 4)) {
    return refused(weights, "num_bits", floats ? "8 for floats" : "4 or 8");
  }
  constexpr std::array<std::string_view, 4> kStrategies = {"tensor", "channel", "group", "block"};
  if (strategy && std::ranges::find(kStrategies, *strategy) == kStrategies.end()) {
    return refused(weights, "strategy", "tensor, channel, group or block");
  }
  const json* const dynamic = weights.find("dynamic");
  if (dynamic != nullptr && *dynamic != false) return refused(weights, "dynamic", "false");
  NMM_TRY(read_block(weights, "block_structure", read));
  if (strategy == "block" && read.block_rows == 0) return weights.missing("block_structure");
  symmetric = symmetric || is_symmetric.value_or(true);
  read.per_tensor = read.per_tensor || strategy.value_or("tensor") == "tensor";
  return {};
}

Status read_schemes(const JsonFields& fields, ForeignQuantization& read) {
  const json* const groups = fields.find("config_groups");
  if (groups == nullptr) return fields.missing("config_groups");
  if (!groups->is_object()) return fields.wrong("config_groups", "an object");
  bool any = false, symmetric = false;
  for (const auto& [name, group] : groups->items()) {
    const std::string source = fmt::format("{}: config_groups {:?}", fields.source(), name);
    if (!group.is_object()) return fail("{}: expected an object", source);
    const JsonFields of_group(group, source);
    if (!is_empty(of_group.find("input_activations")) ||
        !is_empty(of_group.find("output_activations"))) {
      read.rounds_activations = true;
    }
    const json* const weights = of_group.find("weights");
    if (weights == nullptr) continue;
    if (!weights->is_object()) return of_group.wrong("weights", "an object");
    NMM_TRY(read_scheme(JsonFields(*weights, source + ": \"weights\""), read, symmetric));
    any = true;
  }
  read.all_have_zeros = any && !symmetric;
  return {};
}

Result<ForeignQuantization> read_compressed_tensors(const JsonFields& fields) {
  ForeignQuantization read = {.method = ForeignMethod::kCompressedTensors};
  constexpr std::array<std::string_view, 6> kFormats = {"dense",           "pack-quantized",
                                                        "int-quantized",   "float-quantized",
                                                        "naive-quantized", "mixed-precision"};
  NMM_ASSIGN(const auto format, fields.string("format"));
  if (format && std::ranges::find(kFormats, *format) == kFormats.end()) {
    return refused(fields, "format",
                   "pack-quantized, int-quantized, float-quantized or naive-quantized");
  }
  NMM_TRY(refuse_if_set(fields, "transform_config", "a rotation of activations"));
  if (const json* const sparsity = fields.find("sparsity_config"); !is_empty(sparsity)) {
    const bool dense = sparsity->is_object() && sparsity->value("format", json("dense")) == "dense";
    if (!dense) return refused(fields, "sparsity_config", "the format \"dense\"");
  }
  NMM_TRY(read_schemes(fields, read));
  if (!is_empty(fields.find("kv_cache_scheme"))) read.rounds_activations = true;
  return read;
}

Result<std::string> method_of(const JsonFields& fields) {
  NMM_ASSIGN(const auto method, fields.string("quant_method"));
  if (method) return *method;
  // Older entries of bitsandbytes and of AutoAWQ have no quant_method.
  const auto is_true = [&](const char* key) {
    const json* value = fields.find(key);
    return value != nullptr && *value == true;
  };
  if (is_true("load_in_8bit") || is_true("load_in_4bit")) return std::string("bitsandbytes");
  if (fields.find("config_groups") != nullptr) return std::string("compressed-tensors");
  return fields.missing("quant_method");
}

// Returns the fields of the entry of config.json, if there is one.
std::optional<JsonFields> entry_of(const json& config, const fs::path& path) {
  for (const char* const key : {"quantization_config", "compression_config"}) {
    const auto found = config.find(key);
    if (found != config.end() && found->is_object())
      return JsonFields(*found, fmt::format("{}: {:?}", path.string(), key));
  }
  return std::nullopt;
}

// Reads the file of its own that older folders have.
Result<std::optional<ForeignQuantization>> read_older_file(const fs::path& path,
                                                           ForeignMethod method) {
  std::optional<ForeignQuantization> found;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return found;
  NMM_ASSIGN(const json entry, read_json_object(path, kMaxConfigBytes));
  const JsonFields fields(entry, path.string());
  NMM_ASSIGN(found, method == ForeignMethod::kGptq ? read_gptq(fields) : read_awq(fields));
  found->source = path.filename().string();
  return found;
}

}  // namespace

std::string method_name(ForeignMethod method) {
  switch (method) {
    case ForeignMethod::kGptq:
      return "GPTQ";
    case ForeignMethod::kAwq:
      return "AWQ";
    case ForeignMethod::kCompressedTensors:
      return "compressed-tensors";
    case ForeignMethod::kFloat8:
      return "FP8";
    case ForeignMethod::kMxfp4:
      return "MXFP4";
  }
  return {};
}

bool is_own_entry(const JsonFields& entry) {
  const json* const method = entry.find("quant_method");
  return method != nullptr && *method == "neuronmm";
}

Result<ForeignQuantization> parse_foreign_quantization(const JsonFields& entry) {
  NMM_ASSIGN(const std::string method, method_of(entry));
  if (method == "gptq") return read_gptq(entry);
  if (method == "awq") return read_awq(entry);
  if (method == "fp8" || method == "fbgemm_fp8") return read_float8(entry);
  if (method == "compressed-tensors") return read_compressed_tensors(entry);
  if (method == "mxfp4") return ForeignQuantization{.method = ForeignMethod::kMxfp4};
  return fail("{}: \"quant_method\": {}", entry.source(), refusal_of_method(method));
}

Result<std::optional<ForeignQuantization>> read_foreign_quantization(const fs::path& folder,
                                                                     bool has_quantized_tensors) {
  std::optional<ForeignQuantization> found;
  const fs::path path = folder / "config.json";
  const auto config = read_json_object(path, kMaxConfigBytes);
  if (!config.ok()) return found;
  if (const auto entry = entry_of(*config, path)) {
    if (is_own_entry(*entry)) return found;
    NMM_ASSIGN(found, parse_foreign_quantization(*entry));
    found->source = "config.json";
    return found;
  }
  if (!has_quantized_tensors) return found;
  NMM_ASSIGN(found, read_older_file(folder / "quantize_config.json", ForeignMethod::kGptq));
  if (found) return found;
  return read_older_file(folder / "quant_config.json", ForeignMethod::kAwq);
}

}  // namespace neuronmm::io
