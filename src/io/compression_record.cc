#include "io/compression_record.h"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "io/ordered_json.h"
#include "io/record_version.h"

namespace neuronmm::io {
namespace {

using nlohmann::json;

constexpr const char* kRecordKey = "neuronmm_compression";
constexpr const char* kSettingsKey = "settings";
constexpr const char* kExpertsKey = "experts";
constexpr const char* kBasesKey = "bases";
constexpr std::array<std::string_view, 7> kForms = {"uv",    "pivoted", "narrow", "neurons",
                                                    "mixed", "experts", "basis"};

// A rank cannot exceed the smaller side of its matrix.
Result<int64_t> read_rank(const JsonFields& fields, const std::string& key, int64_t largest) {
  NMM_ASSIGN(const auto rank, fields.integer(key));
  if (!rank) return fields.missing(key);
  if (*rank < 0 || *rank > largest)
    return fields.wrong(key, fmt::format("a rank of 0 (dense) to {}", largest));
  return *rank;
}

// Input pivots and neurons came later than the ranks and may be missing: 0.
Result<int64_t> read_optional_rank(const JsonFields& fields, const std::string& key,
                                   int64_t largest) {
  if (fields.find(key) == nullptr) return int64_t{0};
  return read_rank(fields, key, largest);
}

// Reads the ranks of every layer. A list of another length is an error, because a reader that
// trusts a shorter list would take layers for dense.
Result<std::vector<MlpShape>> read_ranks(const JsonFields& fields, const ModelConfig& config) {
  const json* list = fields.find("ranks");
  if (list == nullptr) return fields.missing("ranks");
  if (!list->is_array() || static_cast<int64_t>(list->size()) != config.num_hidden_layers)
    return fields.wrong("ranks", fmt::format("a list of {} layers", config.num_hidden_layers));
  const int64_t largest = std::min(config.hidden_size, config.intermediate_size);
  std::vector<MlpShape> ranks;
  for (const json& entry : *list) {
    const std::string layer = fmt::format("{}: \"ranks\"[{}]", fields.source(), ranks.size());
    if (!entry.is_object())
      return fail("{}: expected an object, found {}", layer, describe_json(entry));
    const JsonFields layer_fields(entry, layer);
    MlpShape& mlp = ranks.emplace_back();
    NMM_ASSIGN(mlp.gate, read_rank(layer_fields, "gate", largest));
    NMM_ASSIGN(mlp.up, read_rank(layer_fields, "up", largest));
    NMM_ASSIGN(mlp.down, read_rank(layer_fields, "down", largest));
    NMM_ASSIGN(mlp.input, read_optional_rank(layer_fields, "input", config.hidden_size));
    NMM_ASSIGN(mlp.neurons, read_optional_rank(layer_fields, "neurons", config.intermediate_size));
  }
  return ranks;
}

// Reads the neurons of the experts of one layer.
Result<std::vector<int64_t>> read_widths(const json& list, const std::string& layer, int64_t count,
                                         int64_t width) {
  if (!list.is_array() || static_cast<int64_t>(list.size()) != count) {
    return fail("{}: expected the neurons of {} experts, found {}", layer, count,
                list.is_array() ? fmt::format("{} numbers", list.size()) : describe_json(list));
  }
  std::vector<int64_t> widths;
  for (const json& entry : list) {
    if (!entry.is_number_integer() || entry < 1 || entry > width) {
      return fail("{}: expected numbers of neurons from 1 to {}, found {}", layer, width,
                  entry.dump());
    }
    widths.push_back(entry.get<int64_t>());
  }
  return widths;
}

// Reads the neurons of all experts, or nothing if they do not differ.
Result<std::vector<std::vector<int64_t>>> read_experts(const JsonFields& fields,
                                                       const ModelConfig& config) {
  std::vector<std::vector<int64_t>> experts;
  const json* const list = fields.find(kExpertsKey);
  if (list == nullptr) return experts;
  if (!config.experts) return fields.wrong(kExpertsKey, "no such list, as no layer has experts");
  if (!list->is_array() || static_cast<int64_t>(list->size()) != config.num_hidden_layers) {
    return fields.wrong(kExpertsKey, fmt::format("a list of {} layers", config.num_hidden_layers));
  }
  for (const json& entry : *list) {
    const int64_t layer = std::ssize(experts);
    const int64_t count = config.is_mixture(layer) ? config.experts->count : 0;
    NMM_ASSIGN(
        experts.emplace_back(),
        read_widths(entry, fmt::format("{}: \"{}\"[{}]", fields.source(), kExpertsKey, layer),
                    count, config.experts->width));
  }
  return experts;
}

// Reads the bases of all layers, or nothing if experts share none. A basis as large as the hidden
// size would save nothing and is not written.
Result<std::vector<ExpertBases>> read_bases(const JsonFields& fields, const ModelConfig& config) {
  std::vector<ExpertBases> bases;
  const json* const list = fields.find(kBasesKey);
  if (list == nullptr) return bases;
  if (!config.experts) return fields.wrong(kBasesKey, "no such list, as no layer has experts");
  if (!list->is_array() || static_cast<int64_t>(list->size()) != config.num_hidden_layers) {
    return fields.wrong(kBasesKey, fmt::format("a list of {} layers", config.num_hidden_layers));
  }
  for (const json& entry : *list) {
    const int64_t layer = std::ssize(bases);
    const std::string source = fmt::format("{}: \"{}\"[{}]", fields.source(), kBasesKey, layer);
    if (!entry.is_object())
      return fail("{}: expected an object, found {}", source, describe_json(entry));
    const JsonFields of_layer(entry, source);
    const int64_t largest = config.is_mixture(layer) ? config.hidden_size - 1 : 0;
    ExpertBases& read = bases.emplace_back();
    NMM_ASSIGN(read.input, read_rank(of_layer, "input", largest));
    NMM_ASSIGN(read.output, read_rank(of_layer, "output", largest));
  }
  return bases;
}

// Other readers, which know the form uv alone, would not see the rest.
Status check_form(const JsonFields& fields, const CompressionRecord& record) {
  for (const MlpShape& mlp : record.ranks) {
    if (!record.pivoted() && (mlp.input > 0 || mlp.neurons > 0)) {
      return fields.wrong("form", "one of pivots, because layers have \"input\" or \"neurons\"");
    }
    if (mlp.input > 0 && (mlp.gate > 0 || mlp.up > 0)) {
      return fail("{}: \"ranks\": expected pivots of the \"input\" or of gate and up, found both",
                  fields.source());
    }
  }
  return {};
}

}  // namespace

// A folder without the record is a dense model, or comes from another program.
Result<std::optional<CompressionRecord>> read_compression_record(const JsonFields& config_fields,
                                                                 const ModelConfig& config) {
  const json* value = config_fields.find(kRecordKey);
  if (value == nullptr) return std::optional<CompressionRecord>();
  if (!value->is_object()) return config_fields.wrong(kRecordKey, "an object");
  const JsonFields fields(*value, fmt::format("{}: \"{}\"", config_fields.source(), kRecordKey));
  NMM_TRY(check_record_version(fields));
  CompressionRecord record;  // "allocate" and "calibration" came later, "align" was removed
  NMM_ASSIGN(record.method, fields.required_string("method"));
  NMM_ASSIGN(const auto ratio, fields.number("ratio"));
  if (!ratio) return fields.missing("ratio");
  // A ratio of 1 would leave nothing of the weights.
  if (*ratio < 0.0 || *ratio >= 1.0) return fields.wrong("ratio", "a number in [0, 1)");
  record.ratio = *ratio;
  NMM_ASSIGN(const auto block, fields.integer("block"));
  if (!block) return fields.missing("block");
  if (*block < 1) return fields.wrong("block", "a positive integer");
  record.block = *block;
  NMM_ASSIGN(auto align, fields.string("align"));
  if (align && *align != "nearest" && *align != "floor" && *align != "ceil")
    return fields.wrong("align", "nearest, floor or ceil");
  if (align) record.align = *std::move(align);
  NMM_ASSIGN(record.ranks, read_ranks(fields, config));
  NMM_ASSIGN(record.experts, read_experts(fields, config));
  NMM_ASSIGN(record.bases, read_bases(fields, config));
  NMM_ASSIGN(auto allocate, fields.string("allocate"));
  if (allocate) record.allocate = *std::move(allocate);  // absent in older folders
  if (record.allocate != "uniform" && record.allocate != "sensitivity" &&
      record.allocate != "predicted" && record.allocate != "measured")
    return fields.wrong("allocate", "uniform, predicted, measured or sensitivity");
  NMM_ASSIGN(auto form, fields.string("form"));
  if (form) record.form = *std::move(form);  // absent in older folders
  if (std::ranges::find(kForms, record.form) == kForms.end())
    return fields.wrong("form", fmt::format("one of {}", fmt::join(kForms, ", ")));
  NMM_TRY(check_form(fields, record));
  NMM_ASSIGN(auto form_choice, fields.string("form_choice"));
  if (form_choice) record.form_choice = *std::move(form_choice);
  if (const json* const settings = fields.find(kSettingsKey)) {
    if (!settings->is_object()) return fields.wrong(kSettingsKey, "an object");
    record.settings = settings->dump();
  }
  NMM_ASSIGN(record.calibration, read_calibration(fields));
  return std::optional(std::move(record));
}

bool calibrated_on(const ModelConfig& config, std::string_view text_checksum) {
  const auto names = [&](const auto& record) {
    return record && std::ranges::any_of(record->calibration, [&](const CalibrationSource& source) {
             return source.xxh3 == text_checksum;
           });
  };
  return names(config.compression) || names(config.quantization);
}

// The parser that checks the text does not keep the order of the keys, so it is parsed twice.
Result<std::string> with_compression_record(std::string_view original_text,
                                            const CompressionRecord& record,
                                            const std::string& source) {
  using nlohmann::ordered_json;
  const Result<json> checked = parse_json_object(original_text, source);
  if (!checked.ok()) return checked.error();
  ordered_json document = parse_ordered_json(original_text);
  ordered_json ranks = ordered_json::array();
  for (const MlpShape& mlp : record.ranks) {
    ordered_json& layer =
        ranks.emplace_back(ordered_json{{"gate", mlp.gate}, {"up", mlp.up}, {"down", mlp.down}});
    if (mlp.input > 0) layer["input"] = mlp.input;
    if (mlp.neurons > 0) layer["neurons"] = mlp.neurons;
  }
  document[kRecordKey] = {{kRecordVersionKey, kRecordVersion},
                          {"method", record.method},
                          {"ratio", record.ratio},
                          {"block", record.block},
                          {"allocate", record.allocate},
                          {"form", record.form},
                          {"ranks", std::move(ranks)}};
  if (!record.experts.empty()) document[kRecordKey][kExpertsKey] = record.experts;
  for (const ExpertBases& bases : record.bases) {
    document[kRecordKey][kBasesKey].push_back({{"input", bases.input}, {"output", bases.output}});
  }
  if (!record.align.empty()) document[kRecordKey]["align"] = record.align;
  if (!record.form_choice.empty()) document[kRecordKey]["form_choice"] = record.form_choice;
  if (!record.settings.empty())
    document[kRecordKey][kSettingsKey] = parse_ordered_json(record.settings);
  if (!record.calibration.empty())
    document[kRecordKey]["calibration"] = calibration_json(record.calibration);
  // The name of a calibration text may be bytes that no JSON can hold.
  return document.dump(kConfigIndent, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace neuronmm::io
