#include "compress/settings.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "compress/statistics/saved_statistics.h"
#include "io/json_file.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

// The block of the paper: the partitions of a NeuronCore.
constexpr int64_t kTrainiumBlock = 128;
// The block for which the CPU's kernels waste nothing: their panels have 32 columns
// (cpu/packed_matrix.h).
constexpr int64_t kCpuBlock = 32;

bool has_text(const CompressGiven& given) {
  return !given.calibration.empty() || given.self_generated.value_or(0) > 0;
}

Status check_ratio(const CompressGiven& given, OptionNames names) {
  const std::string name = option_name(names, "ratio");
  if (!given.ratio) return fail("{} is missing: the share of parameters to remove", name);
  if (*given.ratio > 0.0 && *given.ratio < 1.0) return {};
  return fail("{}: expected a number between 0 and 1, found {}", name, *given.ratio);
}

// Refuses options that exclude or need each other whatever their values are.
Status check_together(const CompressGiven& given, OptionNames names) {
  const auto excludes = [&](std::string_view a, std::string_view b) {
    return fail("{} and {} exclude each other", option_name(names, a), option_name(names, b));
  };
  if (given.paper && given.form) return excludes("paper", "form");
  if (given.paper && given.method) return excludes("paper", "method");
  if (given.self_generated.value_or(0) > 0) {
    if (!given.calibration.empty()) return excludes("self_generated", "calibration");
    if (given.calibration_tokens) return excludes("self_generated", "calibration_tokens");
  }
  if (!given.calibration_tokens || !given.calibration.empty() || given.text_comes_later) return {};
  return fail("{} needs {}, the text that has the tokens", option_name(names, "calibration_tokens"),
              option_name(names, "calibration"));
}

Form form_of(const CompressGiven& given) {
  if (given.form) return *given.form;
  return given.paper || given.method == Method::kSvd ? Form::kUv : Form::kAuto;
}

Allocate allocate_of(const CompressGiven& given, Form form) {
  if (given.allocate) return *given.allocate;
  if (form == Form::kUv) return Allocate::kUniform;
  // With statistics and no text, losses can only be predicted.
  const bool text = has_text(given) || (given.text_comes_later && given.statistics.empty());
  return text ? Allocate::kMeasured : Allocate::kPredicted;
}

int64_t calibration_tokens(const CompressGiven& given, const CompressRequest& request) {
  if (given.calibration_tokens) return *given.calibration_tokens;
  if (const auto asked = SavedStatistics::tokens_asked(given.statistics)) return *asked;
  const int64_t tokens = narrows_mlps(request) || !given.statistics.empty()
                             ? kShapeCalibrationTokens
                             : kDefaultCalibrationTokens;
  return std::max(tokens, request.reconstruct.tokens);
}

std::optional<CalibrationText> calibration_of(const CompressGiven& given,
                                              const CompressRequest& request) {
  if (!has_text(given) && (!given.text_comes_later || !given.statistics.empty())) {
    return std::nullopt;
  }
  CalibrationText text{.texts = {},
                       .max_tokens = calibration_tokens(given, request),
                       .self_generated = given.self_generated.value_or(0),
                       .seed = given.seed.value_or(0)};
  for (const std::string& name : given.calibration) {
    text.texts.push_back(NamedText::of_file(name, {}));
  }
  return text;
}

nlohmann::ordered_json bits_json(const WeightFormats& weights) {
  nlohmann::ordered_json json = {{"bits", nullptr},
                                 {"group", nullptr},
                                 {"lm_head_bits", nullptr},
                                 {"embedding_bits", nullptr}};
  if (!weights) return json;
  json["bits"] = weights->linear.bits;
  json["lm_head_bits"] = weights->lm_head.bits;
  if (weights->embedding_given) json["embedding_bits"] = weights->embedding.bits;
  if (weights->linear.bits == 4) json["group"] = weights->linear.group;
  if (weights->lm_head.bits == 4) json["group"] = weights->lm_head.group;
  if (weights->embedding.bits == 4) json["group"] = weights->embedding.group;
  return json;
}

// Reads the number under `key`; `value` stays empty if it is null or absent.
template <typename Number>
Status read_number(const io::JsonFields& fields, const char* key, std::optional<Number>& value) {
  NMM_ASSIGN(const auto number, fields.integer(key));
  if (number) value = static_cast<Number>(*number);
  return {};
}

// Reads the name under `key` with the function `parse`.
template <typename Value>
Status read_name(const io::JsonFields& fields, const char* key,
                 Result<Value> (*parse)(std::string_view), std::optional<Value>& value) {
  NMM_ASSIGN(const auto name, fields.string(key));
  if (!name) return {};
  NMM_ASSIGN(value, parse(*name));
  return {};
}

}  // namespace

Result<CompressRequest> compress_settings(const CompressGiven& given, OptionNames names) {
  NMM_TRY(check_ratio(given, names));
  NMM_TRY(check_together(given, names));
  CompressRequest request;
  request.model = given.model;
  request.out = given.out;
  request.form = form_of(given);
  request.method =
      given.method.value_or(request.form == Form::kUv ? Method::kWhitened : Method::kTwoSided);
  request.allocate = allocate_of(given, request.form);
  request.rule = {.ratio = *given.ratio,
                  .block = given.block.value_or(given.paper ? kTrainiumBlock : kCpuBlock)};
  request.pad = given.pad;
  NMM_ASSIGN(request.weights, weight_formats(given.bits, given.group, given.lm_head_bits, names,
                                             given.embedding_bits));
  request.statistics = given.statistics;
  request.force = given.force;
  const bool off = given.paper || request.method == Method::kSvd;
  request.reconstruct = given.reconstruct.value_or(
      Reconstruct{off ? Reconstruct::Mode::kOff : Reconstruct::Mode::kAuto, 0});
  request.calibration = calibration_of(given, request);
  NMM_TRY(check_request(request, names));
  return request;
}

nlohmann::ordered_json settings_json(const CompressRequest& request) {
  nlohmann::ordered_json json = {{"form", form_name(request.form)},
                                 {"method", method_name(request.method)},
                                 {"allocate", allocate_name(request.allocate)},
                                 {"ratio", request.rule.ratio},
                                 {"block", request.rule.block},
                                 {"pad", request.pad}};
  json.update(bits_json(request.weights));
  json["calibration"] = nlohmann::ordered_json::array();
  json["calibration_tokens"] = nullptr;
  json["self_generated"] = nullptr;
  json["seed"] = nullptr;
  if (const auto& text = request.calibration) {
    for (const NamedText& named : text->texts) {
      json["calibration"].push_back(fs::path(named.name).filename().string());
    }
    if (text->self_generated > 0) {
      json["self_generated"] = text->self_generated;
      json["seed"] = text->seed;
    } else {
      json["calibration_tokens"] = text->max_tokens;
    }
  }
  json["statistics"] = !request.statistics.empty();
  json["reconstruct"] = reconstruct_text(request.reconstruct);
  return json;
}

Result<CompressGiven> given_of(const nlohmann::json& settings, const fs::path& statistics) {
  if (!settings.is_object()) return fail("settings: expected an object");
  const io::JsonFields fields(settings, "settings");
  CompressGiven given;
  NMM_ASSIGN(given.ratio, fields.number("ratio"));
  NMM_TRY(read_name(fields, "form", parse_form, given.form));
  NMM_TRY(read_name(fields, "method", parse_method, given.method));
  NMM_TRY(read_name(fields, "allocate", parse_allocate, given.allocate));
  NMM_TRY(read_number(fields, "block", given.block));
  NMM_TRY(read_number(fields, "bits", given.bits));
  NMM_TRY(read_number(fields, "group", given.group));
  NMM_TRY(read_number(fields, "lm_head_bits", given.lm_head_bits));
  NMM_TRY(read_number(fields, "embedding_bits", given.embedding_bits));
  NMM_TRY(read_number(fields, "calibration_tokens", given.calibration_tokens));
  NMM_TRY(read_number(fields, "self_generated", given.self_generated));
  // A seed may exceed the range of fields.integer().
  const nlohmann::json* const seed = fields.find("seed");
  if (seed != nullptr && seed->is_number_unsigned()) given.seed = seed->get<uint64_t>();
  NMM_ASSIGN(const auto pad, fields.boolean("pad"));
  given.pad = pad.value_or(false);
  NMM_ASSIGN(const auto has_statistics, fields.boolean("statistics"));
  if (has_statistics.value_or(false)) given.statistics = statistics;
  NMM_TRY(read_name(fields, "reconstruct", parse_reconstruct, given.reconstruct));
  const nlohmann::json* const texts = fields.find("calibration");
  if (texts == nullptr || !texts->is_array()) return given;
  for (const nlohmann::json& name : *texts) {
    if (!name.is_string()) return fields.wrong("calibration", "a list of names");
    given.calibration.push_back(name.get<std::string>());
  }
  return given;
}

bool same_settings(const nlohmann::json& settings, const CompressRequest& request) {
  if (settings == nlohmann::json(settings_json(request))) return true;
  auto given = given_of(settings, request.statistics);
  if (!given.ok()) return false;
  given->out = request.out;  // compared with the folder of statistics
  const auto complete = compress_settings(*given, OptionNames::kKeywords);
  return complete.ok() && settings_json(*complete) == settings_json(request);
}

}  // namespace neuronmm::compress
