#include "io/calibration_source.h"

#include <nlohmann/json.hpp>

#include "io/json_file.h"

namespace neuronmm::io {

Result<std::vector<CalibrationSource>> read_calibration(const JsonFields& fields) {
  std::vector<CalibrationSource> sources;
  const nlohmann::json* list = fields.find("calibration");
  if (list == nullptr) return sources;
  if (!list->is_array()) return fields.wrong("calibration", "a list of texts");
  for (const nlohmann::json& entry : *list) {
    const std::string text =
        fmt::format("{}: \"calibration\"[{}]", fields.source(), sources.size());
    if (!entry.is_object())
      return fail("{}: expected an object, found {}", text, describe_json(entry));
    const JsonFields text_fields(entry, text);
    CalibrationSource& source = sources.emplace_back();
    NMM_ASSIGN(source.name, text_fields.required_string("name"));
    NMM_ASSIGN(source.xxh3, text_fields.required_string("xxh3"));
    NMM_ASSIGN(source.bytes, text_fields.required_count("bytes"));
    NMM_ASSIGN(source.tokens, text_fields.required_count("tokens"));
  }
  return sources;
}

nlohmann::ordered_json calibration_json(const std::vector<CalibrationSource>& sources) {
  auto list = nlohmann::ordered_json::array();
  for (const CalibrationSource& source : sources) {
    list.push_back({{"name", source.name},
                    {"xxh3", source.xxh3},
                    {"bytes", source.bytes},
                    {"tokens", source.tokens}});
  }
  return list;
}

}  // namespace neuronmm::io
